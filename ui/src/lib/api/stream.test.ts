import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { ExecutionRow } from "./shapes";
import { StreamHub, type HubMessage, type PageMessage, type Port } from "./stream";

class Source extends EventTarget {
  static made: Source[] = [];
  static CLOSED = 2;
  readyState = 1;
  onopen: (() => void) | null = null;
  onerror: (() => void) | null = null;
  closed = false;
  constructor(readonly url: string) {
    super();
    Source.made.push(this);
  }
  close(): void {
    this.closed = true;
  }
  say(name: string, data: unknown): void {
    this.dispatchEvent(new MessageEvent(name, { data: JSON.stringify(data) }));
  }
  refuse(): void {
    this.readyState = Source.CLOSED;
    this.onerror?.();
  }
}

class Page implements Port {
  told: HubMessage[] = [];
  onmessage: ((event: MessageEvent<PageMessage>) => void) | null = null;
  constructor(hub: StreamHub) {
    hub.join(this);
  }
  postMessage(message: HubMessage): void {
    this.told.push(message);
  }
  say(message: PageMessage): void {
    this.onmessage?.(new MessageEvent("message", { data: message }));
  }
  subscribe(about: string[] | null = null): void {
    this.say({ kind: "subscribe", url: "/api/stream", about });
  }
  get rows(): string[] {
    return this.told.flatMap((one) => (one.kind === "rows" ? one.rows.map((row) => row.execution_id) : []));
  }
}

const row = (execution_id: string, parent: string | null = null): ExecutionRow =>
  ({ execution_id, parent_execution_id: parent }) as ExecutionRow;

beforeEach(() => {
  vi.stubGlobal("EventSource", Source);
  vi.useFakeTimers();
  Source.made = [];
});
afterEach(() => vi.useRealTimers());

describe("the connection that all pages share", () => {
  it("is opened once, and closed when no page is left", () => {
    const hub = new StreamHub();
    const [one, two] = [new Page(hub), new Page(hub)];
    one.subscribe();
    two.subscribe();
    expect(Source.made).toHaveLength(1);
    one.say({ kind: "unsubscribe" });
    expect(Source.made[0]!.closed).toBe(false);
    two.say({ kind: "unsubscribe" });
    expect(Source.made[0]!.closed).toBe(true);
  });

  it("tells a page the rows it wants, with those of their children, many at once", () => {
    const hub = new StreamHub();
    const [all, some] = [new Page(hub), new Page(hub)];
    all.subscribe();
    some.subscribe(["b"]);
    for (const one of [row("a"), row("b"), row("c", "b")]) Source.made[0]!.say("message", one);
    vi.advanceTimersByTime(100);
    expect([all.rows, some.rows]).toEqual([
      ["a", "b", "c"],
      ["b", "c"],
    ]);
    expect(all.told).toHaveLength(1);
  });

  it("tells a page that comes later whether it is live, and what changed just before", () => {
    const hub = new StreamHub();
    const [one, two] = [new Page(hub), new Page(hub)];
    one.subscribe();
    Source.made[0]!.onopen?.();
    Source.made[0]!.say("message", row("a"));
    vi.advanceTimersByTime(100);
    two.subscribe();
    expect(two.told).toEqual([
      { kind: "state", state: "live" },
      { kind: "rows", rows: [row("a")] },
    ]);
  });

  it("says that it is lost where it never was there too", () => {
    const page = new Page(new StreamHub());
    page.subscribe();
    Source.made[0]!.onerror?.();
    expect(page.told).toEqual([{ kind: "state", state: "lost" }]);
  });

  it("says that it is lost once, and tries again by itself where the browser gives up", () => {
    const hub = new StreamHub();
    const page = new Page(hub);
    page.subscribe();
    Source.made[0]!.onopen?.();
    Source.made[0]!.onerror?.();
    Source.made[0]!.onerror?.();
    Source.made[0]!.refuse();
    expect(page.told.map((one) => one.kind === "state" && one.state)).toEqual(["live", "lost", "refused"]);
    vi.advanceTimersByTime(500);
    expect(Source.made).toHaveLength(2);
    Source.made[1]!.refuse();
    vi.advanceTimersByTime(999);
    expect(Source.made).toHaveLength(2);
    vi.advanceTimersByTime(1);
    expect(Source.made).toHaveLength(3);
  });

  it("is opened anew when it has been silent for long, and when somebody else has signed in", () => {
    const hub = new StreamHub();
    const page = new Page(hub);
    page.subscribe();
    Source.made[0]!.onopen?.();
    vi.advanceTimersByTime(59_000);
    Source.made[0]!.say("still", {});
    vi.advanceTimersByTime(59_000);
    expect(Source.made).toHaveLength(1);
    vi.advanceTimersByTime(1000);
    expect(Source.made).toHaveLength(2);
    page.say({ kind: "reconnect" });
    expect(Source.made.map((one) => one.closed)).toEqual([true, true, false]);
  });
});

import { afterEach, describe, expect, it, vi } from "vitest";

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
}
vi.stubGlobal("EventSource", Source);
const { hear, whenMoved } = await import("./live");

afterEach(() => vi.useRealTimers());

describe("one stream for all screens", () => {
  it("is opened once, tells everybody, and is closed when nobody listens", async () => {
    vi.useFakeTimers();
    const rows: string[] = [];
    const [one, two] = [
      hear({ row: (row) => rows.push(`1 ${row.status}`) }),
      hear({ row: (row) => rows.push(`2 ${row.status}`) }),
    ];
    expect(Source.made).toHaveLength(1);
    Source.made[0]!.say("message", { status: "running" });
    expect(rows).toEqual(["1 running", "2 running"]);
    one();
    two();
    await vi.advanceTimersByTimeAsync(1);
    expect(Source.made[0]!.closed).toBe(true);
  });

  it("has a screen ask again once it is connected, for what changed meanwhile was told to nobody", async () => {
    vi.useFakeTimers();
    const reset = vi.fn();
    const stop = hear({ reset });
    expect(reset).not.toHaveBeenCalled();
    Source.made.at(-1)!.onopen?.();
    expect(reset).toHaveBeenCalledTimes(1);
    stop();
    await vi.advanceTimersByTimeAsync(1);
  });

  it("has a screen ask again once for many changes", async () => {
    vi.useFakeTimers();
    const ask = vi.fn();
    const stop = whenMoved(ask, 1);
    for (let n = 0; n < 50; n++) Source.made.at(-1)!.say("message", {});
    Source.made.at(-1)!.say("still", {});
    await vi.advanceTimersByTimeAsync(1001);
    expect(ask).toHaveBeenCalledTimes(1);
    stop();
    await vi.advanceTimersByTimeAsync(1);
  });
});

// The live connection to the server, held once for all pages of a browser. A browser opens six connections to one host
// over HTTP/1.1 and no more: pages with a connection each would block one another from the sixth on.
//
// `StreamHub` holds the EventSource and passes on what it tells. It runs in a SharedWorker (stream_worker.ts); where
// there is none (Chrome on Android) each page has a hub of its own and disconnects while it is hidden (live.ts).

import type { ExecutionRow } from "./shapes";

/** What a page tells the hub. */
export type PageMessage =
  /** Connect. `about` names the executions whose rows it wants; null is all of them. */
  | { kind: "subscribe"; url: string; about: string[] | null }
  | { kind: "unsubscribe" }
  /** Somebody signed in or out: what the connection may tell has changed. */
  | { kind: "reconnect" };

/** What the hub tells a page. */
export type HubMessage =
  /** refused: the server answered, and not with a stream. */
  | { kind: "state"; state: "live" | "lost" | "refused" }
  /** Rows that changed, of those it wants; none of them where others changed. */
  | { kind: "rows"; rows: ExecutionRow[] }
  /** Tasks of these executions have printed something, of those it wants. */
  | { kind: "output"; ids: string[] }
  /** What came before is not known: ask for everything again. */
  | { kind: "reset" }
  /** Nothing moved for some seconds. */
  | { kind: "still" };

export interface Port {
  postMessage(message: HubMessage): void;
  onmessage: ((event: MessageEvent<PageMessage>) => void) | null;
}

const GATHER_MS = 50; // rows that come together are passed on together
const RETRY_MS = [500, 1000, 2000, 4000, 8000]; // after a refusal; of a lost connection the browser takes care itself
const RECENT_MS = 5000; // rows are sent again to a page that subscribes: it may have asked just before they changed
const SILENCE_MS = 60_000; // the server says something every 15 s: a connection that is silent for so long is dead

export class StreamHub {
  private readonly pages = new Map<Port, Set<string> | null>();
  private source: EventSource | null = null;
  private url = "";
  private state: "connecting" | "lost" | "live" | "refused" = "connecting";
  private refusals = 0;
  private gathered: ExecutionRow[] = [];
  private recent: { at: number; rows: ExecutionRow[] }[] = [];
  private gathering: ReturnType<typeof setTimeout> | undefined;
  private retrying: ReturnType<typeof setTimeout> | undefined;
  private watching: ReturnType<typeof setTimeout> | undefined;

  /** Take in a page, by the port to it. */
  join(port: Port): void {
    port.onmessage = ({ data }) => this.take(port, data);
  }

  private take(port: Port, message: PageMessage): void {
    if (message.kind === "subscribe") {
      const isNew = !this.pages.has(port);
      this.url = message.url;
      this.pages.set(port, message.about && new Set(message.about));
      if (!this.source && this.retrying === undefined) this.connect();
      else if (isNew && this.state !== "connecting") port.postMessage({ kind: "state", state: this.state });
      const rows = this.recentRows().flatMap((one) => one.rows);
      if (rows.length) this.send(port, rows);
    } else if (message.kind === "unsubscribe") {
      this.pages.delete(port);
      if (!this.pages.size) this.disconnect();
    } else if (this.pages.size) {
      this.disconnect();
      this.connect();
    }
  }

  private connect(): void {
    this.retrying = undefined;
    const source = (this.source = new EventSource(this.url));
    this.watch();
    source.onopen = () => {
      this.refusals = 0;
      this.tell({ kind: "state", state: (this.state = "live") });
    };
    source.onerror = () => (source.readyState === EventSource.CLOSED ? this.retry() : this.lose());
    source.addEventListener("message", (event) => this.gather(JSON.parse(event.data as string) as ExecutionRow));
    source.addEventListener("output", (event) =>
      this.passOutput((JSON.parse(event.data as string) as { execution_id: string }).execution_id),
    );
    source.addEventListener("reset", () => this.pass({ kind: "reset" }));
    source.addEventListener("still", () => this.pass({ kind: "still" }));
  }

  private disconnect(): void {
    for (const timer of [this.retrying, this.watching, this.gathering]) clearTimeout(timer);
    this.retrying = this.gathering = undefined;
    [this.gathered, this.recent] = [[], []];
    this.source?.close();
    this.source = null;
    this.state = "connecting";
  }

  private lose(): void {
    if (this.state !== "lost") this.tell({ kind: "state", state: (this.state = "lost") });
  }

  /** The browser gives up on anything but a stream (a proxy's 502, a session that is over); we do not. */
  private retry(): void {
    this.disconnect();
    this.tell({ kind: "state", state: (this.state = "refused") });
    const wait = RETRY_MS[Math.min(this.refusals++, RETRY_MS.length - 1)];
    this.retrying = setTimeout(() => this.connect(), wait);
  }

  /** A server that vanished without a word leaves a connection that looks alive. */
  private watch(): void {
    clearTimeout(this.watching);
    this.watching = setTimeout(() => {
      this.lose();
      this.disconnect();
      this.state = "lost"; // as the pages were told
      this.connect();
    }, SILENCE_MS);
  }

  private gather(row: ExecutionRow): void {
    this.watch();
    this.gathered.push(row);
    this.gathering ??= setTimeout(() => this.flush(), GATHER_MS);
  }

  private flush(): void {
    const rows = this.gathered;
    clearTimeout(this.gathering);
    [this.gathered, this.gathering] = [[], undefined];
    if (!rows.length) return;
    this.recent = [...this.recentRows(), { at: Date.now(), rows }];
    for (const port of this.pages.keys()) this.send(port, rows);
  }

  private recentRows(): { at: number; rows: ExecutionRow[] }[] {
    return this.recent.filter((one) => one.at > Date.now() - RECENT_MS);
  }

  private send(port: Port, rows: ExecutionRow[]): void {
    const about = this.pages.get(port);
    const isWanted = (row: ExecutionRow): boolean =>
      !about || about.has(row.execution_id) || about.has(row.parent_execution_id ?? "");
    port.postMessage({ kind: "rows", rows: rows.filter(isWanted) });
  }

  private pass(message: HubMessage): void {
    this.watch();
    this.flush(); // what was told before comes before
    this.tell(message);
  }

  /** Only to pages that show this one execution: no other page draws lines. */
  private passOutput(id: string): void {
    this.watch();
    for (const [port, about] of this.pages) if (about?.has(id)) port.postMessage({ kind: "output", ids: [id] });
  }

  private tell(message: HubMessage): void {
    for (const port of this.pages.keys()) port.postMessage(message);
  }
}

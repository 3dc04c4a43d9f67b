// The log of one execution as it grows: read in pages, the first at once and the next as its row is heard to have more
// events, and shown some times a second, so that a flood of events costs a few drawings.

import { ApiError, get } from "../api/client";
import { subscribe } from "../api/live.svelte";
import type { EventPage, ExecutionRow } from "../api/shapes";
import type { Journey } from "../net/drawing";
import { slim, type RawEvent, type Slim } from "./events";

const JOURNEYS_AT_ONCE = 24; // more than that at a time is a blur
const BREATH_MS = 80; // between two drawings of a flood
const PAGE = 1000; // events in one question; the server gives no more
const RETRY_MS = 2000;

export class Log {
  readonly events: Slim[] = [];
  length = $state(0); // of `events`, told some times a second
  total = $state(0); // events that the execution is known to have
  kinds = $state.raw<readonly string[]>([]); // of events there have been
  /** Whether the server could be asked the last time. */
  isLost = $state(false);
  journeys = $state.raw<Journey[]>([]);
  private readonly stop: () => void;
  private reading = false;
  private closed = false;
  private timer = 0;
  private retrying = 0;
  private drawn = 0;
  private seen = new Set<string>();

  constructor(private readonly executionId: string) {
    this.stop = subscribe({
      about: executionId,
      row: (row) => this.hear(row),
      reset: () => void this.read(),
    });
    document.addEventListener("visibilitychange", this.onshow);
    void this.read();
  }

  /** Whether all events that are known of are here. */
  get isWhole(): boolean {
    return this.length > 0 && this.length >= this.total;
  }

  private onshow = (): void => {
    if (document.visibilityState === "visible" && this.events.length < this.total) void this.read();
  };

  private hear(row: ExecutionRow): void {
    if (row.execution_id !== this.executionId) return;
    this.total = Math.max(this.total, row.events);
    // A hidden page does not read; it reads what it missed once it is shown.
    if (this.events.length < this.total && document.visibilityState === "visible") void this.read();
  }

  /** Read on until nothing more is there. One reading at a time. */
  private async read(): Promise<void> {
    if (this.reading || this.closed) return;
    this.reading = true;
    clearTimeout(this.retrying);
    try {
      for (let isMore = true; isMore && !this.closed;) {
        const after = this.events.at(-1)?.seq ?? 0;
        const known = this.total;
        const page = await get<EventPage>(`executions/${this.executionId}/events`, { after, limit: PAGE });
        this.take(page);
        // A page that was asked for before there were more events knows nothing of them, and may be empty.
        const isNews = page.events.length > 0 || this.total > known;
        isMore = isNews && (page.next !== null || this.events.length < this.total);
      }
      this.isLost = false;
    } catch (problem) {
      this.isLost = true;
      const isGone = problem instanceof ApiError && problem.status === 404;
      if (!this.closed && !isGone) this.retrying = window.setTimeout(() => void this.read(), RETRY_MS);
    }
    this.reading = false;
  }

  private take(page: EventPage): void {
    for (const event of page.events as unknown as RawEvent[]) {
      this.events.push(slim(event));
      this.seen.add(event.event_type);
    }
    this.total = Math.max(this.total, page.last_seq);
    this.timer ||= window.setTimeout(() => this.show(), Math.max(0, this.drawn + BREATH_MS - performance.now()));
  }

  private show(): void {
    this.timer = 0;
    this.drawn = performance.now();
    const before = this.length;
    this.length = this.events.length;
    if (this.seen.size !== this.kinds.length) this.kinds = [...this.seen].sort();
    // The past is not played: tokens move only for what happens while somebody looks.
    const fresh = before && this.isWhole ? this.events.slice(Math.max(before, this.length - 200)) : [];
    this.journeys = fresh
      .filter((one) => one.type === "next.enqueued")
      .slice(-JOURNEYS_AT_ONCE)
      .map((one) => ({ id: String(one.seq), source: one.step, target: one.target }));
  }

  close(): void {
    this.closed = true;
    this.stop();
    document.removeEventListener("visibilitychange", this.onshow);
    clearTimeout(this.timer);
    clearTimeout(this.retrying);
  }
}

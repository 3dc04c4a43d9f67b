// The log of one execution as it grows: read from the stream, resumed by it, shown some times a second, so that a flood
// of events costs a few drawings.

import { listen, type Stream } from "../api/stream";
import type { Journey } from "../net/drawing";
import { slim, type RawEvent, type Slim } from "./events";
import { MarkHistory } from "./marks";

const JOURNEYS_AT_ONCE = 24; // more than that at a time is a blur
const BREATH_MS = 80; // between two drawings of a flood

export class Log {
  readonly events: Slim[] = [];
  readonly history = new MarkHistory(this.events);
  length = $state(0); // of `events`, told some times a second
  kinds = $state.raw<readonly string[]>([]); // of events there have been
  state = $state<"connecting" | "live" | "lost" | "over">("connecting");
  status = $state(""); // how it ended, once it has
  journeys = $state.raw<Journey[]>([]);
  private stream: Stream;
  private timer = 0;
  private drawn = 0;
  private seen = new Set<string>();
  private begun = performance.now();

  constructor(executionId: string) {
    this.stream = listen(`executions/${executionId}/stream`, {}, ["message", "end"], {
      on: (name, data) => (name === "end" ? this.end(data as { status: string }) : this.take(data as RawEvent)),
      state: (state) => {
        if (this.state !== "over") this.state = state;
      },
    });
  }

  private take(event: RawEvent): void {
    const last = this.events.at(-1);
    if (last && event.seq <= last.seq) return; // a stream that was resumed may tell one again
    this.events.push(slim(event));
    this.seen.add(event.event_type);
    this.timer ||= window.setTimeout(() => this.show(), Math.max(0, this.drawn + BREATH_MS - performance.now()));
  }

  private show(): void {
    clearTimeout(this.timer);
    this.timer = 0;
    this.drawn = performance.now();
    const before = this.length;
    this.length = this.events.length;
    if (this.seen.size !== this.kinds.length) this.kinds = [...this.seen].sort();
    const isOld = performance.now() - this.begun < 1000 && before === 0; // the past is not played
    const fresh = this.events.slice(Math.max(before, this.length - 200)).filter((one) => one.type === "next.enqueued");
    this.journeys = isOld
      ? []
      : fresh.slice(-JOURNEYS_AT_ONCE).map((one) => ({ id: String(one.seq), source: one.step, target: one.target }));
  }

  private end({ status }: { status: string }): void {
    this.status = status;
    this.state = "over";
    this.show();
    this.stream.close();
  }

  close(): void {
    clearTimeout(this.timer);
    this.stream.close();
  }
}

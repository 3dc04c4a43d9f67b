// The log of one execution as it grows: read from the stream, resumed by it, shown in frames so that a flood of events
// costs one drawing.

import { listen, type Stream } from "../api/stream";
import type { Journey } from "../net/drawing";
import { slim, type RawEvent, type Slim } from "./events";
import { MarkHistory } from "./marks";

const JOURNEYS_AT_ONCE = 24; // more than that at a time is a blur

export class Log {
  readonly events: Slim[] = [];
  readonly history = new MarkHistory(this.events);
  length = $state(0); // of `events`, told once a frame
  state = $state<"connecting" | "live" | "lost" | "over">("connecting");
  status = $state(""); // how it ended, once it has
  journeys = $state.raw<Journey[]>([]);
  private stream: Stream;
  private frame = 0;
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
    this.frame ||= requestAnimationFrame(() => this.show());
  }

  private show(): void {
    this.frame = 0;
    const before = this.length;
    this.length = this.events.length;
    const isOld = performance.now() - this.begun < 1000 && before === 0; // the past is not played
    const fresh = this.events.slice(Math.max(before, this.length - 200)).filter((one) => one.type === "next.enqueued");
    this.journeys = isOld ? [] : fresh.slice(-JOURNEYS_AT_ONCE).map((one) => ({ id: String(one.seq), source: one.step, target: one.target }));
  }

  private end({ status }: { status: string }): void {
    this.status = status;
    this.state = "over";
    this.show();
    this.stream.close();
  }

  close(): void {
    cancelAnimationFrame(this.frame);
    this.stream.close();
  }
}

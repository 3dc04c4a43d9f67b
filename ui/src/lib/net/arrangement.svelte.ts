// Where everything of a drawing stands. A small net is laid out at once; a large one by a worker, and until it answers
// the one before is shown.

import type { Drawing } from "./drawing";
import { laidOut, NARROW, type Laid } from "./layout";

const SMALL = 15; // boxes, which take some milliseconds; 25 took 40 the first time, before the code was warm

export class Arrangement {
  private answer = $state.raw<Laid | null>(null); // of the worker
  private atOnce = $derived.by(() => (this.isSmall() ? laidOut(this.drawing(), this.width()) : null));
  private last: Laid | null = null; // that was shown, by the worker or at once
  readonly shown = $derived.by(() => {
    const isAnswered = this.answer && (!this.last || this.answer.drawing === this.drawing());
    return (this.last = this.atOnce ?? (isAnswered ? this.answer : this.last));
  });
  readonly isCurrent = $derived.by(() => this.shown?.drawing === this.drawing()); // and not the one before

  private worker: Worker | null = null;
  private isAsked = false; // the worker is at work: what is asked meanwhile waits, and only the last of it is done
  private next: { drawing: Drawing; width: number } | null = null;

  constructor(
    private drawing: () => Drawing,
    private room: () => number, // in pixels
  ) {
    $effect(() => {
      if (!this.isSmall() && this.width()) this.ask({ drawing: this.drawing(), width: this.width() });
    });
    $effect(() => () => this.worker?.terminate());
  }

  /** In a place that is wide enough a net does not change with it. */
  private width(): number {
    return Math.min(this.room(), NARROW);
  }

  private isSmall(): boolean {
    return this.drawing().boxes.length <= SMALL;
  }

  private ask(wanted: { drawing: Drawing; width: number }): void {
    if (this.isAsked) {
      this.next = wanted;
      return;
    }
    this.isAsked = true;
    this.worker ??= new Worker(new URL("./layout_worker.ts", import.meta.url), { type: "module" });
    this.worker.onmessage = ({ data }: MessageEvent<Omit<Laid, "drawing">>) => {
      this.isAsked = false;
      this.answer = { ...data, drawing: wanted.drawing }; // the same object, to tell whether it is current
      const next = this.next;
      this.next = null;
      if (next) this.ask(next);
    };
    this.worker.postMessage(wanted); // which copies it: a drawing is plain data, never a $state proxy
  }
}

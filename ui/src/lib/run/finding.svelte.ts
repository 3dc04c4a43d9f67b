// Events that fit, looked for in slices so that a long log never holds up the page.

import type { Slim } from "./events";

export interface Wanted {
  step: string;
  kind: string;
  text: string; // lower case
}

const SLICE = 4000; // events between two breaths: some milliseconds

export const fits = (event: Slim, { step, kind, text }: Wanted): boolean =>
  (!step || event.step === step) &&
  (!kind || event.type === kind) &&
  (!text || `${event.type} ${event.step} ${event.gist}`.toLowerCase().includes(text));

export class Finding {
  rows = $state.raw<readonly Slim[]>([]);
  private key = "";
  private at = 0;
  private found: Slim[] = [];
  private timer = 0;

  constructor(private readonly events: readonly Slim[]) {}

  /** Show what fits among the first `length` events; what was found already is kept while it only grows. */
  look(length: number, wanted: Wanted): void {
    clearTimeout(this.timer);
    const key = JSON.stringify(wanted);
    if (key !== this.key || length < this.at) [this.key, this.at, this.found] = [key, 0, []];
    if (!wanted.step && !wanted.kind && !wanted.text) {
      this.at = 0;
      this.rows = this.events.slice(0, length);
      return;
    }
    const end = Math.min(length, this.at + SLICE);
    for (; this.at < end; this.at++) if (fits(this.events[this.at]!, wanted)) this.found.push(this.events[this.at]!);
    this.rows = this.found.slice();
    if (this.at < length) this.timer = window.setTimeout(() => this.look(length, wanted), 0);
  }

  close(): void {
    clearTimeout(this.timer);
  }
}

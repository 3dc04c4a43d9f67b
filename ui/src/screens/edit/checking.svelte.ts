// The check of a text while it is typed: what is wrong with it, its net, and the names that completion offers.

import { costOf, draw, playbookSchema, templateNames, validate } from "../../lib/api/catalog";
import { get } from "../../lib/api/client";
import type { Credentials, NetCost, Outline } from "../../lib/api/shapes";
import type { Words } from "../../lib/editor/completion";
import type { Drawing } from "../../lib/net/drawing";
import { may } from "../../lib/state/session.svelte";

const LONG = 50_000; // characters; laying out the net of such a text takes a noticeable moment
const QUIET_MS = 600;
const SOON_MS = 250; // after the last key

const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((go, drop) => {
    setTimeout(go, ms);
    signal.addEventListener("abort", drop);
  });

export class TextCheck {
  outline = $state.raw<Outline | null>(null);
  drawing = $state.raw<Drawing | null>(null);
  cost = $state.raw<NetCost | null>(null); // of the drawing, as the executions of `path` tell
  words = $state.raw<Words>({ names: templateNames });

  constructor(private path: () => string) {
    // One writes without either of them too.
    void playbookSchema().then(
      (schema) => (this.words = { ...this.words, schema }),
      () => undefined,
    );
    if (may("author"))
      void get<Credentials>("credentials").then(
        (found) => (this.words = { ...this.words, credentials: found.credentials.map((one) => one.name) }),
        () => undefined,
      );
  }

  /** Check a text a moment after the last key; gives how to drop it, and its answer, for a newer one. */
  soon(text: string, begin: () => void): () => void {
    const asked = new AbortController();
    const timer = setTimeout(() => {
      begin();
      void this.check(text, asked.signal);
    }, SOON_MS);
    return () => {
      clearTimeout(timer);
      asked.abort();
    };
  }

  private async check(text: string, signal: AbortSignal): Promise<void> {
    try {
      const outline = await validate(text, signal);
      this.outline = outline;
      // A template that is being written breaks the text until its quote is closed: the names it may want stay.
      if (outline.steps.length)
        this.words = {
          ...this.words,
          steps: outline.steps.map((one) => one.name),
          tasks: outline.steps.flatMap((one) => one.tasks.map((task) => task.name)),
        };
      // A text that was not proved has errors and no net: asking for its picture would be refused, the last one stays.
      if (outline.verdict === null) return;
      if (text.length > LONG) await pause(QUIET_MS, signal);
      const drawn = await draw(text, signal);
      if (JSON.stringify(drawn) === JSON.stringify(this.drawing)) return; // it costs what it did
      this.drawing = drawn;
      if (this.path()) this.cost = await costOf(text, this.path(), signal);
    } catch {
      // the server is away, or a newer text is checked: the last answers stay
    }
  }
}

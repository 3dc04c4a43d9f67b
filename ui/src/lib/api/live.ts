// What moves on the server, heard by every screen over one stream: rows of executions as they change. Nothing is polled:
// a screen that shows something else (tasks, waits, workers) asks again when something has moved, and when the server
// says that it is still there, which it does every few seconds while nothing moves.

import { listen, type Stream } from "./stream";
import type { ExecutionRow } from "./shapes";

export interface Hearer {
  row?: (row: ExecutionRow) => void;
  /** What came before is not known: ask for everything again. */
  reset?: () => void;
  still?: () => void;
}

const hearers = new Set<Hearer>();
let stream: Stream | null = null;

function tell(name: string, data: unknown): void {
  for (const one of [...hearers]) {
    if (name === "message") one.row?.(data as ExecutionRow);
    else if (name === "reset") one.reset?.();
    else one.still?.();
  }
}

function open(): Stream {
  return listen("stream", {}, ["message", "reset", "still"], {
    on: tell,
    state: (state) => {
      // Nobody was told of what changed between a screen's question and now.
      if (state === "live") tell("reset", null);
    },
  });
}

/** Hear of executions for as long as somebody looks; gives how to stop. */
export function hear(hearer: Hearer): () => void {
  hearers.add(hearer);
  stream ??= open();
  return () => {
    hearers.delete(hearer);
    // The next screen may want it in the same breath.
    setTimeout(() => {
      if (hearers.size || !stream) return;
      stream.close();
      stream = null;
    }, 0);
  };
}

/** Ask again whenever something has moved, at most once in `seconds`; gives how to stop. */
export function whenMoved(ask: () => unknown, seconds = 1): () => void {
  let due = 0;
  const soon = (): void => {
    due ||= window.setTimeout(() => {
      due = 0;
      if (document.visibilityState === "visible") void ask();
    }, seconds * 1000);
  };
  const onshow = (): void => void (document.visibilityState === "visible" && soon());
  document.addEventListener("visibilitychange", onshow);
  const stop = hear({ row: soon, reset: soon, still: soon });
  return () => {
    stop();
    clearTimeout(due);
    document.removeEventListener("visibilitychange", onshow);
  };
}

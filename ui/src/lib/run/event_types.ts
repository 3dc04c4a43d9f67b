// Generated from the classes of events (`make docs`): what their names mean.

/** Events after which a step run waits for somebody outside. */
export const WAITS: ReadonlySet<string> = new Set([
  "case.waiting",
  "timer.scheduled",
  "message.awaited",
  "signal.awaited",
  "human.created",
]);

/** Events that end what runs beside the tokens. */
export const SIDE_RUN_ENDS: ReadonlySet<string> = new Set([
  "compensation.done",
  "compensation.failed",
  "compensation.unknown",
  "handler.done",
  "handler.failed",
  "task.async_done",
]);

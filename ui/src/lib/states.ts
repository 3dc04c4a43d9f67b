// States of executions, steps, tasks: each has a word, a sign and a colour (ui/DESIGN.md).

export type StateName = "running" | "completed" | "failed" | "paused" | "waiting" | "cancelled" | "queued";

export const SIGNS: Record<StateName, string> = {
  running: "◐",
  completed: "✓",
  failed: "✕",
  paused: "‖",
  waiting: "◷",
  cancelled: "⊘",
  queued: "○",
};

const SAME: Record<string, StateName> = {
  done: "completed",
  success: "completed",
  error: "failed",
  open: "waiting",
  claimed: "running",
  scheduled: "queued",
  ready: "queued",
  leased: "running",
  started: "running",
  lost: "failed",
  dropped: "cancelled",
  withdrawn: "cancelled",
  denied: "cancelled",
};

export function stateOf(word: string): StateName {
  return word in SIGNS ? (word as StateName) : (SAME[word] ?? "queued");
}

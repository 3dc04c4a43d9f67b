// What runs beside the tokens, in the words of the screen: compensations, handlers of events, asynchronous tasks,
// hooks that failed.

import type { SideRunProjection } from "../api/shapes";
import { t } from "../../texts/run";
import { reasonOf } from "../words";

export type SideRunKind = "compensation" | "handler" | "async" | "hook";

export interface SideRun {
  id: string;
  kind: SideRunKind;
  step: string;
  label: string; // its task, or what it handles
  index: number; // of the iteration it undoes, -1 otherwise
  state: "queued" | "running" | "completed" | "failed" | "cancelled";
  from: number; // asked for, in seconds
  begun: number | null; // taken by a worker
  to: number | null;
  note: string; // how it went wrong
}

const kind = (
  sign: string,
  text: "compensation" | "handler" | "asyncTask" | "hook",
): { sign: string; word: string } => ({
  sign,
  get word() {
    return t[text]; // the language may be chosen after this module is loaded
  },
});

export const KINDS: Record<SideRunKind, { sign: string; word: string }> = {
  compensation: kind("↶", "compensation"),
  handler: kind("⚡\uFE0E", "handler"),
  async: kind("∥", "asyncTask"),
  hook: kind("⊸", "hook"),
};

const STATES: Record<string, SideRun["state"]> = {
  pending: "queued",
  scheduled: "queued",
  running: "running",
  done: "completed",
  cancelled: "cancelled",
};
const NOTE = 200; // characters

/** Its status as a state; what is not known to be undone counts as failed. */
export const stateOf = (status: string): SideRun["state"] => STATES[status] ?? "failed";

const seconds = (text: string | null): number | null => (text ? Date.parse(text) / 1000 : null);

function noteOf(one: SideRunProjection): string {
  if (!one.error || stateOf(one.status) !== "failed") return "";
  const reason = reasonOf(one.error);
  if (one.status === "unknown") return t.perhapsUndone(reason);
  const hook = one.kind === "hook" ? `${one.event} ${one.task}, ` : "";
  return `${hook}${String(one.error.kind)}: ${reason}`;
}

export function sideRunOf(one: SideRunProjection): SideRun {
  const to = seconds(one.finished_at);
  const task = one.task ?? "";
  return {
    id: String(one.number),
    kind: one.kind as SideRunKind,
    step: one.step,
    label: one.kind === "hook" ? "" : one.kind === "handler" ? t.taskFor(task, one.event ?? "") : task,
    index: one.path.at(-1) ?? -1,
    state: stateOf(one.status),
    from: seconds(one.scheduled_at)!,
    begun: seconds(one.started_at) ?? to,
    to,
    note: noteOf(one).slice(0, NOTE),
  };
}

// What runs beside the tokens: compensations, handlers of events, tasks nobody waits for, hooks that went wrong. Read
// from the log as it grows, so that they are shown as they were at any moment of it.

import type { Marks } from "../net/drawing";
import { SIDE_RUN_ENDS } from "./event_types";
import type { Slim } from "./events";

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

export const KINDS: Record<SideRunKind, { sign: string; word: string; does: string }> = {
  compensation: { sign: "↶", word: "compensation", does: "undo" },
  handler: { sign: "⚡\uFE0E", word: "handler", does: "handle" },
  async: { sign: "∥", word: "async task", does: "beside" },
  hook: { sign: "⊸", word: "hook", does: "hook of" },
};

export class SideRunHistory {
  private readonly ready = new Map<string, SideRun>(); // compensations that stand by
  private readonly asked = new Map<string, SideRun>();
  private readonly runs = new Map<string, SideRun>(); // by their step run, of which the log tells
  private taken = 0;

  constructor(private readonly events: readonly Slim[]) {}

  /** After the first `length` events, in the order they were asked for. */
  at(length: number): SideRun[] {
    if (length < this.taken) {
      for (const one of [this.ready, this.asked, this.runs]) one.clear();
      this.taken = 0;
    }
    for (; this.taken < length; this.taken++) this.take(this.events[this.taken]!);
    return Array.from(this.asked.values(), (one) => ({ ...one }));
  }

  /** How many compensations stand by after the first `length` events. */
  undoable(length: number): number {
    this.at(length);
    return this.ready.size;
  }

  private take(event: Slim): void {
    switch (event.type) {
      case "handler.started":
        this.begin(event, made(event.run, "handler", event));
        return;
      case "task.async_started":
        this.begin(event, made(event.run, "async", event));
        return;
      case "hook.failed":
        this.asked.set(`hook ${event.seq}`, {
          ...made(`hook ${event.seq}`, "hook", event),
          label: "",
          state: "failed",
          begun: event.at,
          to: event.at,
          note: event.gist,
        });
        return;
      case "compensation.registered":
        this.ready.set(event.key, made(event.key, "compensation", event));
        return;
      case "compensation.requested":
        this.request(event.at);
        return;
      case "compensation.started":
        this.begin(event, this.asked.get(event.key));
        return;
      case "order.claimed":
      case "task.started":
        this.claim(event);
        return;
      default:
        if (SIDE_RUN_ENDS.has(event.type)) this.end(event);
    }
  }

  private begin(event: Slim, sideRun: SideRun | undefined): void {
    if (!sideRun) return;
    this.asked.set(sideRun.id, sideRun);
    this.runs.set(event.run, sideRun);
  }

  /** All that is registered is to be undone, the last first. */
  private request(at: number): void {
    for (const one of [...this.ready.values()].reverse()) this.asked.set(one.id, { ...one, from: at });
    this.ready.clear();
  }

  private claim(event: Slim): void {
    const one = this.runs.get(event.run);
    if (one?.to === null) Object.assign(one, { state: "running", begun: one.begun ?? event.at });
  }

  private end(event: Slim): void {
    const one = this.asked.get(event.key) ?? this.runs.get(event.run);
    if (!one) return;
    const isBad = event.type.endsWith(".failed") || event.type.endsWith(".unknown") || event.status === "error";
    const state = event.status === "stopped" ? "cancelled" : isBad ? "failed" : "completed";
    const note = event.type.endsWith(".unknown")
      ? `perhaps undone, somebody has to look: ${event.gist}`
      : isBad
        ? event.gist
        : "";
    Object.assign(one, { state, begun: one.begun ?? event.at, to: event.at, note });
  }
}

const made = (id: string, kind: SideRunKind, event: Slim): SideRun => ({
  id,
  kind,
  step: event.step,
  label: event.gist,
  index: event.index,
  state: "queued",
  from: event.at,
  begun: null,
  to: null,
  note: "",
});

/** The marks of the net with sideRuns at their steps. */
export function withSideRuns(marks: Marks, sideRuns: readonly SideRun[]): Marks {
  if (!sideRuns.length) return marks;
  const found: Marks = { ...marks };
  for (const one of sideRuns) {
    const before = found[one.step] ?? { tokens: 0, running: 0, done: 0, failed: 0 };
    const states = before.sideRuns?.[one.kind] ?? {};
    found[one.step] = {
      ...before,
      sideRuns: { ...before.sideRuns, [one.kind]: { ...states, [one.state]: (states[one.state] ?? 0) + 1 } },
    };
  }
  return found;
}

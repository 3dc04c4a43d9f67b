// Steps as the server has folded them, as the net marks them.

import type { StepProjection } from "../api/shapes";
import type { Marks, SideRuns } from "../net/drawing";
import { stateOf } from "./side_runs";

function sideRunsOf(step: StepProjection): SideRuns {
  const found: SideRuns = {};
  for (const [kind, statuses] of Object.entries(step.side_runs)) {
    const states = (found[kind] = {} as Record<string, number>);
    for (const [status, number] of Object.entries(statuses))
      states[stateOf(status)] = (states[stateOf(status)] ?? 0) + number;
  }
  return found;
}

export function marksOf(steps: Iterable<StepProjection>): Marks {
  const marks: Marks = {};
  for (const step of steps) {
    const { tokens, queued, done, failed } = step;
    const state = step.status === "done" ? "completed" : (step.status ?? undefined);
    const running = step.running - queued;
    const queuedAt = step.queued_at;
    marks[step.step] = { tokens, running, queued, queuedAt, done, failed, state, loop: step.loop ?? undefined };
    if (Object.keys(step.side_runs).length) marks[step.step]!.sideRuns = sideRunsOf(step);
  }
  return marks;
}

export interface Queued {
  step: string;
  since: string;
}

/** The steps with runs that no worker has taken yet, the one that waits longest first. */
export const queuedSteps = (marks: Marks): Queued[] =>
  Object.entries(marks)
    .flatMap(([step, { queuedAt }]) => (queuedAt ? [{ step, since: queuedAt }] : []))
    .sort((one, other) => Date.parse(one.since) - Date.parse(other.since));

export interface LostIterations {
  failed: number;
  total: number; // of the loops in which some failed
  unrun: number; // not run to their end
  passedOver: number; // done although a task of theirs failed
}

/** What became of the iterations that are not simply done, over all loops. */
export function lostIterations(marks: Marks): LostIterations {
  const loops = Object.values(marks).flatMap((mark) => (mark.loop ? [mark.loop] : []));
  const sum = (numbers: number[]): number => numbers.reduce((all, one) => all + one, 0);
  return {
    failed: sum(loops.map((one) => one.failed)),
    total: sum(loops.map((one) => (one.failed ? one.total : 0))),
    unrun: sum(loops.map((one) => one.unrun)),
    passedOver: sum(loops.map((one) => one.passed_over)),
  };
}

/** How many items of the loop of a step are not done: they failed, or the loop ended before they ran. */
export function undoneItems(marks: Marks, step: string): number {
  const loop = marks[step]?.loop;
  return loop ? loop.total - loop.done : 0;
}

// What the net shows after each event: counted, not judged. Going back in time starts from the nearest kept count.

import type { StepBar } from "../api/shapes";
import type { Marks, StepMark } from "../net/drawing";
import { WAITS } from "./event_types";
import type { Slim } from "./events";

interface Count {
  tokens: number;
  running: number;
  done: number;
  failed: number;
  waiting: number;
  loop?: { done: number; failed: number; total: number; depth: number }; // of the innermost iterations
}

interface Tally {
  steps: Map<string, Count>;
  inside: Map<string, "running" | "waiting" | "failed">; // step runs that have begun
}

function empty(): Tally {
  return { steps: new Map(), inside: new Map() };
}

function copied(tally: Tally): Tally {
  const steps = new Map(
    [...tally.steps].map(([name, count]) => [name, { ...count, loop: count.loop && { ...count.loop } }]),
  );
  return { steps, inside: new Map(tally.inside) };
}

function count(tally: Tally, step: string): Count {
  let found = tally.steps.get(step);
  if (!found) tally.steps.set(step, (found = { tokens: 0, running: 0, done: 0, failed: 0, waiting: 0 }));
  return found;
}

function leave(tally: Tally, event: Slim): "running" | "waiting" | "failed" | undefined {
  const was = tally.inside.get(event.run);
  if (!was) return undefined;
  tally.inside.delete(event.run);
  const here = count(tally, event.step);
  here.running -= 1;
  if (was === "waiting") here.waiting -= 1;
  return was;
}

const depthOf = (path: string): number => (path ? path.split(".").length : 0);

/** A loop begins. Iterations are counted over all runs of the step; of nested loops the innermost, which do the work. */
function begin(here: Count, event: Slim): void {
  if (event.total < 0) return;
  const depth = depthOf(event.path) + 1;
  if (here.loop?.depth === depth) here.loop.total += event.total;
  else if (!here.loop || depth > here.loop.depth) here.loop = { done: 0, failed: 0, total: event.total, depth };
}

export function apply(tally: Tally, event: Slim): void {
  switch (event.type) {
    case "token.created":
      count(tally, event.target || event.step).tokens += 1;
      return;
    case "step.scheduled":
      count(tally, event.step).tokens -= 1;
      count(tally, event.step).running += 1;
      tally.inside.set(event.run, "running");
      return;
    case "step.failed":
      count(tally, event.step).failed += 1;
      if (tally.inside.has(event.run)) tally.inside.set(event.run, "failed");
      return;
    case "token.consumed": {
      const was = leave(tally, event);
      if (was === undefined) count(tally, event.step).tokens -= 1;
      else if (was !== "failed") count(tally, event.step).done += 1;
      return;
    }
    case "token.dropped":
      if (leave(tally, event) === undefined) count(tally, event.step).tokens -= 1;
      return;
    case "loop.started":
      begin(count(tally, event.step), event);
      return;
    case "loop.iteration.done":
    case "loop.iteration.failed": {
      const loop = count(tally, event.step).loop;
      if (loop?.depth === depthOf(event.path)) loop[event.type === "loop.iteration.done" ? "done" : "failed"] += 1;
      return;
    }
    default:
      if (WAITS.has(event.type) && tally.inside.get(event.run) === "running") {
        tally.inside.set(event.run, "waiting");
        count(tally, event.step).waiting += 1;
      }
  }
}

function shown(tally: Tally): Marks {
  const marks: Marks = {};
  for (const [step, one] of tally.steps) {
    const mark: StepMark = {
      tokens: Math.max(0, one.tokens),
      running: one.running,
      done: one.done,
      failed: one.failed,
      loop: one.loop && { ...one.loop },
    };
    if (one.running > 0) mark.state = one.waiting === one.running ? "waiting" : "running";
    else if (one.failed > 0) mark.state = "failed";
    else if (one.done > 0) mark.state = "completed";
    marks[step] = mark;
  }
  return marks;
}

/** The marks as the server's list of step runs has them, for as long as the log is not here. */
export function marksOfRuns(runs: readonly StepBar[]): Marks {
  const marks: Marks = {};
  for (const run of runs) {
    const mark = (marks[run.step] ??= { tokens: 0, running: 0, done: 0, failed: 0 });
    const isOver = run.finished_at !== null;
    if (!isOver) mark.running += 1;
    else if (run.status === "failed") mark.failed += 1;
    else mark.done += 1;
    mark.state = isOver && mark.running ? mark.state : run.status === "scheduled" ? "queued" : run.status;
    if (run.total === null) continue;
    mark.loop ??= { total: 0, done: 0, failed: 0 };
    mark.loop.total += run.total;
    mark.loop.done += run.done;
    mark.loop.failed += run.failed;
  }
  return marks;
}

/** Iterations that failed, of all loops in which some did. */
export function lostIterations(marks: Marks): { failed: number; total: number } {
  const loops = Object.values(marks).flatMap((mark) => (mark.loop?.failed ? [mark.loop] : []));
  const sum = (numbers: number[]): number => numbers.reduce((all, one) => all + one, 0);
  return { failed: sum(loops.map((one) => one.failed)), total: sum(loops.map((one) => one.total)) };
}

const EVERY = 2000; // events between two kept counts

/** The marks after any event of a growing log. */
export class MarkHistory {
  private kept: Tally[] = [empty()];
  private live = empty();
  private length = 0;

  constructor(private readonly events: readonly Slim[]) {}

  /** Take in what has been added to the log. */
  advance(): void {
    for (; this.length < this.events.length; this.length++) {
      apply(this.live, this.events[this.length]!);
      if ((this.length + 1) % EVERY === 0) this.kept.push(copied(this.live));
    }
  }

  /** After the first `length` events. */
  at(length: number): Marks {
    this.advance();
    if (length >= this.length) return shown(this.live);
    const from = Math.floor(length / EVERY);
    const tally = copied(this.kept[from]!);
    for (let n = from * EVERY; n < length; n++) apply(tally, this.events[n]!);
    return shown(tally);
  }
}

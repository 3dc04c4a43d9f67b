// Two runs side by side: what differs in their data, and how their steps went.

import type { StepBar } from "../api/shapes";

export interface Difference {
  path: string; // where in the data: "orders.3.total"
  before: unknown; // undefined where it is not there
  after: unknown;
}

const isTree = (value: unknown): value is Record<string, unknown> => value !== null && typeof value === "object";

/** Every place where two values differ, at most `most` of them. */
export function differences(before: unknown, after: unknown, most = 200): Difference[] {
  const found: Difference[] = [];
  compareAt(before, after, "", most, found);
  return found;
}

function compareAt(before: unknown, after: unknown, path: string, most: number, found: Difference[]): void {
  if (found.length >= most || Object.is(before, after)) return;
  if (isTree(before) && isTree(after) && Array.isArray(before) === Array.isArray(after)) {
    for (const key of new Set([...Object.keys(before), ...Object.keys(after)]))
      compareAt(before[key], after[key], path ? `${path}.${key}` : key, most, found);
    return;
  }
  found.push({ path, before, after });
}

export interface StepPair {
  step: string;
  before: StepSum | null;
  after: StepSum | null;
  change: number | null; // seconds that the second took longer
}

export interface StepSum {
  status: string; // of the last visit
  seconds: number | null;
  visits: number;
}

/** How each step went in both, in the order of the second run, then what only the first had. */
export function stepPairs(before: readonly StepBar[], after: readonly StepBar[]): StepPair[] {
  const [old, fresh] = [sums(before), sums(after)];
  return [...new Set([...fresh.keys(), ...old.keys()])].map((step) => {
    const [a, b] = [old.get(step) ?? null, fresh.get(step) ?? null];
    const isBoth = a !== null && b !== null && a.seconds !== null && b.seconds !== null;
    return { step, before: a, after: b, change: isBoth ? b.seconds! - a.seconds! : null };
  });
}

function sums(bars: readonly StepBar[]): Map<string, StepSum> {
  const found = new Map<string, StepSum>();
  for (const bar of bars) {
    const sum = found.get(bar.step) ?? { status: "", seconds: null, visits: 0 };
    sum.status = bar.status ?? "scheduled";
    sum.visits += 1;
    if (bar.finished_at)
      sum.seconds =
        (sum.seconds ?? 0) + (Date.parse(bar.finished_at) - Date.parse(bar.started_at ?? bar.scheduled_at)) / 1000;
    found.set(bar.step, sum);
  }
  return found;
}

// What the server has folded of an execution, now or at an earlier event: its answers put together. Nothing is derived
// from events here; steps and side runs are replaced by those of the answer.

import { getProjection } from "../api/executions";
import type { ProjectionView, SideRunProjection, StepProjection } from "../api/shapes";
import { Follower } from "./follower";

const MOST_SIDE_RUNS = 1000; // as many as one answer lists

export interface Shown {
  at: number;
  isNow: boolean;
  ts: string | null;
  steps: ReadonlyMap<string, StepProjection>;
  sideRuns: ReadonlyMap<number, SideRunProjection>;
}

interface Wanted {
  at: number | null; // null is now
}

/** What is shown after an answer. One that tells changes alone adds to what was shown before. */
export function merged(before: Shown | null, answer: ProjectionView, isNow: boolean): Shown {
  const isWhole = answer.since === 0 || !before;
  const steps = new Map(isWhole ? [] : before.steps);
  const sideRuns = new Map(isWhole ? [] : before.sideRuns);
  for (const step of answer.steps) steps.set(step.step, step);
  for (const one of answer.side_runs) sideRuns.set(one.number, one);
  for (const number of sideRuns.keys()) {
    if (number >= answer.side_runs_total - MOST_SIDE_RUNS) break;
    sideRuns.delete(number);
  }
  return { at: answer.at, isNow, ts: answer.ts, steps, sideRuns };
}

export class Projection {
  shown = $state.raw<Shown | null>(null);
  private readonly follower: Follower<Wanted, ProjectionView>;

  constructor(id: string) {
    this.follower = new Follower(
      ({ at }) => getProjection(id, at ?? undefined, this.since(at)),
      (answer, { at }) => (this.shown = merged(this.shown, answer, at === null)),
    );
  }

  /** Show the state after event `at`, null for now; asks again each time. */
  want(at: number | null): void {
    this.follower.want({ at });
  }

  close(): void {
    this.follower.close();
  }

  /** Going on from what is shown costs the changes; going back is asked for whole. */
  private since(at: number | null): number {
    const here = this.shown?.at ?? 0;
    return at === null || here <= at ? here : 0;
  }
}

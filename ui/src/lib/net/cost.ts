// The cost of a net (POST /api/cost) as it is drawn on steps and arcs.

import type { NetCost, StepCost } from "../api/shapes";
import { span } from "../words";
import { t } from "../../texts/net";

/** What stands at a step. `label` is for those who read the figure, `words` for those who hear it. */
export interface StepLabel {
  label: string;
  words: string;
  isCritical: boolean;
}

export interface DrawnCost {
  steps: Map<string, StepLabel>;
  arcs: Set<string>;
}

/** How an arc is found among those of the critical path; names of steps hold no line break. */
export const arcKey = (source: string, target: string): string => `${source}\n${target}`;

/** Nothing where no execution is over: "no history" at each step would say the same many times. */
export function drawnCost(cost: NetCost | null): DrawnCost | null {
  if (!cost || cost.total_s === null) return null;
  return {
    steps: new Map(cost.steps.map((one) => [one.step, labelOf(one)])),
    arcs: new Set(cost.arcs.map(([source, target]) => arcKey(source as string, target as string))),
  };
}

function labelOf(one: StepCost): StepLabel {
  if (one.median_s === null) return { label: t.noHistory, words: t.noHistory, isCritical: one.is_critical };
  const figures = t.medianOf(span(one.median_s), span(one.p95_s), one.runs);
  return {
    label: span(one.median_s),
    words: one.is_critical ? t.onTheCriticalPath(figures) : figures,
    isCritical: one.is_critical,
  };
}

import { area, type Value } from "./area";

export const t = area("net", {
  // NetView.svelte
  controls: "Controls of the picture",
  zoomIn: "Zoom in",
  zoomOut: "Zoom out",
  fitView: "Show the whole net",
  map: "Map of the net",
  end: "End of an arc",
  theNet: "the net",
  theNetOf: (title: Value) => `The net of ${title}`,

  // StepNode.svelte
  more: (length: Value) => `${length} more`,
  waiting: (tokens: Value) => `${tokens} waiting`,
  running: (running: Value) => `${running} running`,
  queued: (queued: Value) => `${queued} queued`,
  queuedSince: (since: Value) => `queued since ${since}`,
  done: (done: Value) => `${done} done`,
  failed: (failed: Value) => `${failed} failed`,
  iterations: (lost: Value) => `. Iterations: ${lost}`,

  // cost.ts
  noHistory: "no history",
  medianOf: (median: Value, p95: Value, runs: number) =>
    `median ${median}, p95 ${p95}, ${runs} ${runs === 1 ? "run" : "runs"}`,
  onTheCriticalPath: (figures: Value) => `on the critical path: ${figures}`,

  // CostTable.svelte
  costOfTheNet: "Duration by step",
  criticalPath: "Critical path",
  fromExecutions: (steps: Value, executions: number) =>
    executions === 1
      ? `${steps} steps; from the one finished execution`
      : `${steps} steps; medians of the last ${executions} finished executions`,
  costOfSteps: "Duration of each step",
  step: "Step",
  median: "Median",
  p95: "p95",
  runs: "Runs",
  share: "Share",
  percent: (share: Value) => `${share} %`,
  inACycle: "in a cycle",
  allVisitsCount: "It is part of a cycle: all its runs in an execution count together",
  notOnThePath: "not on the path",
  showAllSteps: (length: Value) => `Show all ${length} steps`,

  // GroupNode.svelte
  stepsInside: (number: Value) => `${number} steps`,
  inState: (number: Value, state: Value) => `${number} ${state}`,

  // GroupList.svelte
  groups: (number: number) => `${number} ${number === 1 ? "group" : "groups"}`,
  collapseAll: "Collapse all",
  expandAll: "Expand all",
  groupNamed: (group: Value, number: Value) => `${group}, ${number} steps`,

  // Finder.svelte
  findAStep: "Find a step",
  of: (at: Value, length: Value) => `${at} of ${length}`,
  noStep: "no step",
  next: "Next",
  failedSteps: (length: Value) => `✕ ${length} failed`,
});

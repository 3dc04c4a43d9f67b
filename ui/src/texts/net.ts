import { area, type Value } from "./area";

export const t = area("net", {
  // NetView.svelte
  controls: "Controls of the picture",
  zoomIn: "Zoom in",
  zoomOut: "Zoom out",
  fitView: "Show the whole net",
  map: "Map of the net",
  end: "End of an arc",
  theNetOf: (title: Value) => `The net of ${title}`,

  // StepNode.svelte
  more: (length: Value) => `${length} more`,
  waiting: (tokens: Value) => `${tokens} waiting`,
  running: (running: Value) => `${running} running`,
  done: (done: Value) => `${done} done`,
  failed: (failed: Value) => `${failed} failed`,
  iterations: (lost: Value) => `. Iterations: ${lost}`,

  // Finder.svelte
  findAStep: "Find a step",
  of: (at: Value, length: Value) => `${at} of ${length}`,
  noStep: "no step",
  next: "Next",
  failedSteps: (length: Value) => `✕ ${length} failed`,
});

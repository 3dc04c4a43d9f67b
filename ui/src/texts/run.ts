import { area, type Value } from "./area";

export const t = area("run", {
  reason: "Reason",
  seconds: "seconds",
  atOnce: "At once",
  lengthOfTheWindow: "Length of the window",

  // cancelling.ts
  undoWhatWasDoneFirst: "Undo what was done first",
  compensationsOfTheStepsRun: "compensations of the steps that have any run, the last step first",
  compensationsRunFirst: (many: number) =>
    `${many} ${many === 1 ? "compensation runs" : "compensations run"}, the last step first`,
  toolsAreStopped: (ending: Value) =>
    `Tools that run are stopped, nested executions too. ${ending} This cannot be undone.`,
  toolsOfExecutionAreStopped: (id: Value, ending: Value) =>
    `Execution ${id}. Tools that run are stopped, nested executions too. ${ending} This cannot be undone.`,
  cancelExecution: "Cancel execution",
  keepRunning: "Keep running",
  keptInItsLog: "kept in its log",
  noneHasACompensation: "None of its steps so far has a compensation: what they did stays.",
  thenCompensationsRun: "Then compensations run, and it ends as cancelled after them.",
  compensationsDoNotRun: "Compensations do not run: what its steps did stays.",

  // limits.ts
  keptWithTheChange: "kept with the change",
  noLimit: "no limit",
  aSecond: (limit: Value) => `${limit} a second`,
  inSeconds: (limit: Value, seconds: Value) => `${limit} in ${seconds} seconds`,
  inTime: (limit: Value, time: Value) => `${limit} in ${time}`,
  notAWholeNumber: (what: Value, found: Value) => `${what}: found "${found}"; a whole number from 1 on is allowed`,
  limitThisPlaybook: "Limit this playbook",
  howManyGoOn: (path: Value) =>
    `How many executions of ${path} go on at once. Those that wait are let in as soon as there is room; nothing that runs is stopped.`,
  setTheLimit: "Set the limit",
  executions: "executions",
  limitsOfTheStep: (step: Value) => `Limits of the step ${step}`,
  forThisExecutionAlone:
    "For this execution alone, and at once: runs that wait begin where there is room; nothing that runs is stopped.",
  set: "Set",
  runsOfTheStep: "runs of the step; empty for what the playbook says",
  beginInAWindow: "Begin in a window",

  // side_runs.ts
  compensation: "compensation",
  handler: "handler",
  asyncTask: "async task",
  hook: "hook",
  perhapsUndone: (reason: Value) => `perhaps undone, somebody has to look: ${reason}`,
  taskFor: (task: Value, event: Value) => `${task}, for ${event}`,

  // levels.ts
  infoAndAbove: "info and above",
  warningsAndAbove: "warnings and above",
  errors: "errors",

  // events.ts
  attempt: (task: Value, attempt: Value) => `${task}, attempt ${attempt}`,
  ends: (how: Value) => `ends ${how}`,
  toUndo: (many: Value, cause: Value) => `${many} to undo (${cause})`,
  items: (total: Value) => `${total} items`,

  // inputs.svelte.ts
  anInputIsNotJson: (message: Value) => `One of the inputs is not JSON: ${message}`,

  // gantt/steps.ts
  retries: (many: number) => `, ${many} ${many === 1 ? "retry" : "retries"}`,
  queuedFor: (span: Value) => `queued ${span}`,
  ran: "ran",
  stateFor: (state: Value, span: Value) => `${state} ${span}`,
  stateOn: (state: Value, span: Value, worker: Value) => `${state} ${span} on ${worker}`,
  waitingFor: (span: Value, what: Value) => `waiting ${span} for ${what}`,
  or: ", or ",
  attemptFor: (task: Value, attempt: Value, state: Value, span: Value) =>
    `${task}, attempt ${attempt}: ${state} ${span}`,
  waitsBeforeAttempt: (span: Value, attempt: Value) => `waits ${span} before attempt ${attempt}`,
  wordQueuedFor: (word: Value, span: Value) => `${word} queued ${span}`,
  wordStateFor: (word: Value, state: Value, span: Value) => `${word} ${state} ${span}`,
  undo: (step: Value) => `undo ${step}`,
  hookOf: (step: Value) => `hook of ${step}`,
  taskBeside: (task: Value, step: Value) => `${task} beside ${step}`,
});

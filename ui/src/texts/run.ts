import { area, type Value } from "./area";

export const t = area("run", {
  reason: "Reason",
  seconds: "seconds",
  atOnce: "At once",
  lengthOfTheWindow: "Length of the window",

  // cancelling.ts
  undoWhatWasDoneFirst: "Undo what was done first",
  compensationsOfTheStepsRun: "runs the compensations of its steps, the last step first",
  compensationsRunFirst: (many: number) =>
    `${many} ${many === 1 ? "compensation runs" : "compensations run"}, the last step first`,
  toolsAreStopped: (ending: Value) =>
    `Running tools are stopped, also those of nested executions. ${ending} This cannot be undone.`,
  toolsOfExecutionAreStopped: (id: Value, ending: Value) =>
    `Execution ${id}. Running tools are stopped, also those of nested executions. ${ending} This cannot be undone.`,
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
  notAWholeNumber: (what: Value, found: Value) => `${what}: found "${found}"; enter a whole number, 1 or more`,
  limitThisPlaybook: "Limit this playbook",
  howManyGoOn: (path: Value) =>
    `How many executions of ${path} may run at once. Waiting ones start as soon as there is room; running ones are not stopped.`,
  setTheLimit: "Set the limit",
  executions: "executions",
  limitsOfTheStep: (step: Value) => `Limits of the step ${step}`,
  forThisExecutionAlone:
    "Applies at once, to this execution only. Waiting runs start where there is room; running ones are not stopped.",
  set: "Set",
  runsOfTheStep: "runs of the step; empty for the limit in the playbook",
  beginInAWindow: "Starts per window",

  // side_runs.ts
  compensation: "compensation",
  handler: "handler",
  asyncTask: "async task",
  hook: "hook",
  perhapsUndone: (reason: Value) => `may not be undone, check by hand: ${reason}`,
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
  queuedSince: (since: Value, span: Value) => `queued since ${since} (${span})`,
  stillQueued: ", queued",
  pausedBy: (by: string) => (by ? `paused by ${by}` : "paused"),
  resumedBy: (by: Value) => `resumed by ${by}`,
  ran: "ran",
  stateFor: (state: Value, span: Value) => `${state} ${span}`,
  stateOn: (state: Value, span: Value, worker: Value) => `${state} ${span} on ${worker}`,
  waitingFor: (span: Value, what: Value) => `waiting ${span} for ${what}`,
  or: ", or ",
  attemptFor: (task: Value, attempt: Value, state: Value, span: Value) =>
    `${task}, attempt ${attempt}: ${state} ${span}`,
  lostStarts: (many: number) => `, ${many} ${many === 1 ? "start" : "starts"} lost`,
  lostStart: ", lost",
  startNumber: (start: Value) => `, start ${start}`,
  lostAfter: (task: Value, attempt: Value, span: Value, worker: Value) =>
    `${task}, attempt ${attempt}: lost within ${span}: worker ${worker} did not answer, or was shut down`,
  waitsBeforeAttempt: (span: Value, attempt: Value) => `waits ${span} before attempt ${attempt}`,
  wordQueuedFor: (word: Value, span: Value) => `${word} queued ${span}`,
  wordStateFor: (word: Value, state: Value, span: Value) => `${word} ${state} ${span}`,
  undo: (step: Value) => `undo ${step}`,
  hookOf: (step: Value) => `hook of ${step}`,
  taskBeside: (task: Value, step: Value) => `${task} beside ${step}`,
});

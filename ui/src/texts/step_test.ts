import { area, type Value } from "./area";

export const t = area("step_test", {
  test: (step: Value) => `Test ${step}`,
  testThis: "Test step",
  whatItDoes:
    "The step of this text runs once, alone. No other step follows and nothing is registered. Its tools really run.",
  inputsFrom: "Inputs from",
  typedByHand: "typed by hand",
  run: (status: Value, when: Value, id: Value) => `${status}, ${when} (…${id})`,
  runs: "runs",
  inputs: "Inputs as JSON",
  whatTheyAre: "args of the token, ctx, workload, and results of other steps by their names",
  notJson: (message: Value) => `This is not JSON: ${message}`,
  hidden: (steps: Value) => `Results of ${steps} are too large to show; the test uses those of that run.`,
  didNotRun: (step: Value) => `${step} did not run there; choose another run, or type the inputs.`,
  runTest: "Run test",
  cancelTest: "Cancel test",
  close: "Close",
  result: "Result",
  output: "Output",
  printedNothing: "Nothing was printed.",
  openExecution: "Open the execution",
  attempt: (task: Value, attempt: Value) => `${task}, attempt ${attempt}`,
  theResult: "the result",
});

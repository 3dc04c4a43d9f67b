import { area, type Value } from "./area";

export const t = area("step_test", {
  test: (step: Value) => `Test ${step}`,
  testThis: "Test step",
  whatItDoes:
    "The step of this text runs once, alone. Nothing follows it and nothing is registered; what its tools do is done.",
  inputsFrom: "Inputs from",
  typedByHand: "typed by hand",
  run: (status: Value, when: Value, id: Value) => `${status}, ${when} (…${id})`,
  runs: "runs",
  inputs: "Inputs as JSON",
  whatTheyAre: "args of the token, ctx, workload, and results of other steps by their names",
  notJson: (message: Value) => `This is not JSON: ${message}`,
  hidden: (steps: Value) => `Results of ${steps} are too large to be shown, and are taken from that run as they are.`,
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

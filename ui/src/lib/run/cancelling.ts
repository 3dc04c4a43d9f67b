// The question before something is cancelled: what stops, what is undone, and why it is done.

import type { Steering } from "../api/executions";
import { t } from "../../texts/run";
import type { Answers, Question } from "../state/questions.svelte";

/** `undoable` counts what compensations stand ready for; null where that is not known, as of many executions at once. */
export function cancelling(
  title: string,
  undoable: number | null,
  act: (asked: Steering) => unknown,
  id = "",
): Question {
  const undo = {
    name: "compensate",
    label: t.undoWhatWasDoneFirst,
    kind: "check" as const,
    hint: undoable === null ? t.compensationsOfTheStepsRun : t.compensationsRunFirst(undoable),
  };
  return {
    title,
    text: (answers) =>
      id ? t.toolsOfExecutionAreStopped(id, ending(answers, undoable)) : t.toolsAreStopped(ending(answers, undoable)),
    verb: t.cancelExecution,
    leave: t.keepRunning,
    danger: true,
    blanks: [{ name: "reason", label: t.reason, hint: t.keptInItsLog }, ...(undoable === 0 ? [] : [undo])],
    act: (answers) =>
      act({ compensate: answers.compensate === true, ...(answers.reason ? { reason: String(answers.reason) } : {}) }),
  };
}

function ending(answers: Answers, undoable: number | null): string {
  if (undoable === 0) return t.noneHasACompensation;
  return answers.compensate === true ? t.thenCompensationsRun : t.compensationsDoNotRun;
}

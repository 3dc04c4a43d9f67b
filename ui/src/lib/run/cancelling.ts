// The question before something is cancelled: what stops, what is undone, and why it is done.

import type { Steering } from "../api/executions";
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
    label: "Undo what was done first",
    kind: "check" as const,
    hint:
      undoable === null
        ? "compensations of the steps that have any run, the last step first"
        : `${undoable} ${undoable === 1 ? "compensation runs" : "compensations run"}, the last step first`,
  };
  return {
    title,
    text: (answers) =>
      `${id ? `Execution ${id}. ` : ""}Tools that run are stopped, nested executions too. ${ending(answers, undoable)} This cannot be undone.`,
    verb: "Cancel execution",
    leave: "Keep running",
    danger: true,
    blanks: [{ name: "reason", label: "Reason", hint: "kept in its log" }, ...(undoable === 0 ? [] : [undo])],
    act: (answers) =>
      act({ compensate: answers.compensate === true, ...(answers.reason ? { reason: String(answers.reason) } : {}) }),
  };
}

function ending(answers: Answers, undoable: number | null): string {
  if (undoable === 0) return "None of its steps so far has a compensation: what they did stays.";
  return answers.compensate === true
    ? "Then compensations run, and it ends as cancelled after them."
    : "Compensations do not run: what its steps did stays.";
}

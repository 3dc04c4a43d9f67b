// What a human task asks to be decided, and what was decided.

import type { FormField, HumanTask } from "../api/shapes";
import { labelOf } from "../words";

const MOST_BUTTONS = 4;

/** The field whose options are the buttons of the form: it must be given, and nothing else is to be chosen. */
export function decisionField(form: readonly FormField[]): FormField | null {
  const choices = form.filter((one) => one.type === "enum");
  const [first] = choices;
  const many = first?.options?.length ?? 0;
  const isAsked = choices.length === 1 && first!.field === "decision" && first!.required === true;
  return isAsked && many >= 2 && many <= MOST_BUTTONS ? first! : null;
}

/** What was chosen, in a word; null where nothing was to be chosen, or more than one thing. */
export function outcomeOf({ form, result }: Pick<HumanTask, "form" | "result">): string | null {
  const choices = form.filter((one) => one.type === "enum");
  const field = choices.find((one) => one.field === "decision") ?? (choices.length === 1 ? choices[0] : undefined);
  const value = field && result?.[field.field];
  return value === undefined || value === null || value === "" ? null : labelOf(String(value));
}

// Attempts of tasks and what each was given: the server renders inputs again from the log, here they are only named.

import { count } from "../words";
import type { AttemptInputs, AttemptView, ValueDifference } from "../api/shapes";
import { t } from "../../texts/attempts";

/** "load, attempt 2", with its iteration and, where a task is visited again, its visit. */
export function attemptName(one: AttemptView): string {
  const where = one.path.length ? ` [${one.path.join(".")}]` : "";
  return t.attemptOf(one.task, where, one.attempt);
}

/** What the inputs were compared with, in words. */
export function comparedWith(found: AttemptInputs): string {
  if (!found.before) return "";
  const name = attemptName(found.before);
  const other = found.before_execution_id;
  return other && other !== found.execution_id ? t.ofExecution(name, other.slice(-8)) : name;
}

/** One side of a difference as text, at most `most` characters of it. */
export function sideText(one: ValueDifference, side: "before" | "after", most = 400): string {
  if (one.entries) return t.entries(one.entries[side] ?? 0, count(one.entries[side] ?? 0));
  if (!(side in one.values)) return t.notThere;
  const text = JSON.stringify(one.values[side]) ?? "";
  return text.length > most ? `${text.slice(0, most)} …` : text;
}

/** The one to show first: the last that failed, else the last. */
export function firstShown(attempts: readonly AttemptView[]): AttemptView | null {
  return attempts.findLast((one) => one.status === "error") ?? attempts.at(-1) ?? null;
}

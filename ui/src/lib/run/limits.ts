// Limits in words, and the questions that change them while things run.

import type { LimitRate, StepLimit } from "../api/shapes";
import type { Answers, Question } from "../state/questions.svelte";

export const REASON = { name: "reason", label: "Reason", hint: "kept with the change" };

/** A rate as it is said; one that is written may be templates. */
export function rateWords(rate: { limit: unknown; per: unknown } | null): string {
  if (!rate) return "no limit";
  const per = typeof rate.per === "number" ? (rate.per === 1 ? "second" : `${rate.per} seconds`) : String(rate.per);
  return `${String(rate.limit)} a ${per}`.replace(/a (\d|\{)/, "in $1");
}

const blank = (answers: Answers, name: string): boolean => String(answers[name] ?? "").trim() === "";
const reasonOf = (answers: Answers): { reason?: string } =>
  blank(answers, "reason") ? {} : { reason: String(answers.reason).trim() };

/** A whole number from 1 on, in the words of whoever typed something else. */
function whole(text: unknown, what: string): number {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1)
    throw new Error(`${what}: found "${String(text)}"; a whole number from 1 on is allowed`);
  return number;
}

export function ofPlaybook(
  path: string,
  now: number | null,
  set: (asked: { limit: number; reason?: string }) => unknown,
): Question {
  return {
    title: "Limit this playbook",
    text: `How many executions of ${path} go on at once. Those that wait are let in as soon as there is room; nothing that runs is stopped.`,
    verb: "Set the limit",
    blanks: [
      { name: "limit", label: "At once", kind: "number", value: String(now ?? ""), required: true, hint: "executions" },
      REASON,
    ],
    act: (answers) => set({ limit: whole(answers.limit, "at once"), ...reasonOf(answers) }),
  };
}

export interface StepAsked {
  limit: number | null;
  rate: LimitRate | null;
  reason?: string;
}

export function ofStep(
  step: string,
  now: Pick<StepLimit, "limit" | "rate"> | undefined,
  set: (asked: StepAsked) => unknown,
): Question {
  return {
    title: `Limits of the step ${step}`,
    text: "For this execution alone, and at once: runs that wait begin where there is room; nothing that runs is stopped.",
    verb: "Set",
    blanks: [
      {
        name: "limit",
        label: "At once",
        kind: "number",
        value: String(now?.limit ?? ""),
        hint: "runs of the step; empty for what the playbook says",
      },
      {
        name: "begin",
        label: "Begin in a window",
        kind: "number",
        value: String(now?.rate?.limit ?? ""),
        hint: "runs of the step; empty for what the playbook says",
      },
      {
        name: "per",
        label: "Length of the window",
        kind: "number",
        value: String(now?.rate?.per ?? 1),
        hint: "seconds",
      },
      REASON,
    ],
    act: (answers) => set(asked(answers)),
  };
}

function asked(answers: Answers): StepAsked {
  const limit = blank(answers, "limit") ? null : whole(answers.limit, "at once");
  const rate = blank(answers, "begin")
    ? null
    : { limit: whole(answers.begin, "begin in a window"), per: Number(answers.per) };
  return { limit, rate, ...reasonOf(answers) };
}

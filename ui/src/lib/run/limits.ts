// Limits in words, and the questions that change them while things run.

import type { LimitRate, StepLimit } from "../api/shapes";
import { t } from "../../texts/run";
import type { Answers, Blank, Question } from "../state/questions.svelte";

const reason = (): Blank => ({ name: "reason", label: t.reason, hint: t.keptWithTheChange });

/** A rate as it is said; one that is written may be templates. */
export function rateWords(rate: { limit: unknown; per: unknown } | null): string {
  if (!rate) return t.noLimit;
  const limit = String(rate.limit);
  if (typeof rate.per !== "number") return t.inTime(limit, String(rate.per));
  return rate.per === 1 ? t.aSecond(limit) : t.inSeconds(limit, rate.per);
}

const blank = (answers: Answers, name: string): boolean => String(answers[name] ?? "").trim() === "";
const reasonOf = (answers: Answers): { reason?: string } =>
  blank(answers, "reason") ? {} : { reason: String(answers.reason).trim() };

/** The text as a whole number from 1 on. Throws an error that names other input. */
function whole(text: unknown, what: string): number {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1) throw new Error(t.notAWholeNumber(what, String(text)));
  return number;
}

export function ofPlaybook(
  path: string,
  now: number | null,
  set: (asked: { limit: number; reason?: string }) => unknown,
): Question {
  return {
    title: t.limitThisPlaybook,
    text: t.howManyGoOn(path),
    verb: t.setTheLimit,
    blanks: [
      { name: "limit", label: t.atOnce, kind: "number", value: String(now ?? ""), required: true, hint: t.executions },
      reason(),
    ],
    act: (answers) => set({ limit: whole(answers.limit, t.atOnce), ...reasonOf(answers) }),
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
    title: t.limitsOfTheStep(step),
    text: t.forThisExecutionAlone,
    verb: t.set,
    blanks: [
      {
        name: "limit",
        label: t.atOnce,
        kind: "number",
        value: String(now?.limit ?? ""),
        hint: t.runsOfTheStep,
      },
      {
        name: "begin",
        label: t.beginInAWindow,
        kind: "number",
        value: String(now?.rate?.limit ?? ""),
        hint: t.runsOfTheStep,
      },
      {
        name: "per",
        label: t.lengthOfTheWindow,
        kind: "number",
        value: String(now?.rate?.per ?? 1),
        hint: t.seconds,
      },
      reason(),
    ],
    act: (answers) => set(asked(answers)),
  };
}

function asked(answers: Answers): StepAsked {
  const limit = blank(answers, "limit") ? null : whole(answers.limit, t.atOnce);
  const rate = blank(answers, "begin")
    ? null
    : { limit: whole(answers.begin, t.beginInAWindow), per: Number(answers.per) };
  return { limit, rate, ...reasonOf(answers) };
}

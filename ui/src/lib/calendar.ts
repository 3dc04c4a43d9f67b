// A month as weeks of days, and what falls on each. Days are texts like "2026-11-17", by the clock of the zone that is shown.

import { zonedInput } from "./words";

const DAY_MS = 86_400_000;
const written = (at: number): string => new Date(at).toISOString().slice(0, 10);

export const dayOfMoment = (value: string, timeZone?: string): string => zonedInput(value, timeZone).slice(0, 10);

/** The month of a day, `by` months on. */
export function otherMonth(day: string, by: number): string {
  const [year, month] = day.split("-").map(Number) as [number, number];
  return written(Date.UTC(year, month - 1 + by, 1));
}

/** The weeks that have a day of the month, from Monday on, with the days of the months beside it. */
export function weeksOf(day: string): string[][] {
  const [year, month] = day.split("-").map(Number) as [number, number];
  const first = Date.UTC(year, month - 1, 1);
  const monday = first - ((new Date(first).getUTCDay() + 6) % 7) * DAY_MS;
  const weeks: string[][] = [];
  for (let at = monday; at < Date.UTC(year, month, 1); at += 7 * DAY_MS)
    weeks.push(Array.from({ length: 7 }, (_, n) => written(at + n * DAY_MS)));
  return weeks;
}

/** Things by the day on which they fall. */
export function byDay<T>(things: readonly T[], momentOf: (one: T) => string, timeZone?: string): Map<string, T[]> {
  const days = new Map<string, T[]>();
  for (const one of things) {
    const day = dayOfMoment(momentOf(one), timeZone);
    days.set(day, [...(days.get(day) ?? []), one]);
  }
  return days;
}

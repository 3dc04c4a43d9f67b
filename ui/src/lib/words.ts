// How moments, spans, counts and ids are written, everywhere the same.

import { locale } from "../texts/area";
import { t } from "../texts/words";
import { ownZone, shownZone } from "./state/zone.svelte";

const formats = new Map<string, { time: Intl.DateTimeFormat; day: Intl.DateTimeFormat; hour: Intl.DateTimeFormat }>();
/** The formats of a zone, made once: making one costs more than using it a hundred times. */
function formatsOf(timeZone: string): {
  time: Intl.DateTimeFormat;
  day: Intl.DateTimeFormat;
  hour: Intl.DateTimeFormat;
} {
  const known = formats.get(timeZone);
  if (known) return known;
  const made = {
    time: new Intl.DateTimeFormat(locale(), { hour: "2-digit", minute: "2-digit", second: "2-digit", timeZone }),
    day: new Intl.DateTimeFormat(locale(), { year: "numeric", month: "short", day: "2-digit", timeZone }),
    hour: new Intl.DateTimeFormat(locale(), { hour: "2-digit", timeZone }),
  };
  formats.set(timeZone, made);
  return made;
}
let numbers: Intl.NumberFormat | null = null;

function moment(value: string | number): Date {
  return new Date(typeof value === "number" ? value * 1000 : value);
}

/** A name of a playbook's author as people read it: "amount_to_pay" is "Amount to pay". */
export const labelOf = (name: string): string => {
  const words = name.replaceAll("_", " ").trim();
  return words ? words[0]!.toLocaleUpperCase(locale()) + words.slice(1) : name;
};

/** A sentence of the server, with its moments as they are shown here: they are in it as "2026-11-19T20:44:57Z". */
export const saidHere = (sentence: string, now = new Date()): string =>
  sentence.replace(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, (moment) => when(moment, now));

/** By the clock of the zone that is shown; the day too when it is not today. */
export function when(value: string | number | null | undefined, now = new Date()): string {
  if (value === null || value === undefined || value === "") return "–";
  const at = moment(value);
  const { time, day } = formatsOf(shownZone());
  return day.format(at) === day.format(now) ? time.format(at) : `${day.format(at)} ${time.format(at)}`;
}

/** The time of day alone, as it stands before each line of a log. */
export const timeOf = (value: string): string => formatsOf(shownZone()).time.format(moment(value));

/** A moment in a zone, by the clock on the wall there: "17 Nov, 02:30". */
export function wallTime(value: string, timeZone: string): string {
  const form = { day: "2-digit", month: "short", hour: "2-digit", minute: "2-digit", timeZone } as const;
  try {
    return new Intl.DateTimeFormat(locale(), form).format(moment(value));
  } catch {
    return utc(value); // a zone that this browser does not know
  }
}

const clocks = new Map<string, Intl.DateTimeFormat>();
function clockOf(timeZone: string): Intl.DateTimeFormat {
  const form = { timeZone, hourCycle: "h23", year: "numeric", month: "numeric", day: "numeric" } as const;
  const clock = clocks.get(timeZone) ?? new Intl.DateTimeFormat("en", { ...form, hour: "numeric", minute: "numeric" });
  clocks.set(timeZone, clock);
  return clock;
}

/** Minutes by which the clock of a zone is ahead of UTC at a moment. */
function ahead(at: Date, timeZone: string): number {
  const parts = clockOf(timeZone).formatToParts(at);
  const of = (type: string): number => Number(parts.find((one) => one.type === type)!.value);
  const wall = Date.UTC(of("year"), of("month") - 1, of("day"), of("hour"), of("minute"));
  return Math.round((wall - Math.floor(at.getTime() / 60_000) * 60_000) / 60_000); // the parts have no seconds
}

/** A moment as a field for date and time holds it, by the clock of the zone that is shown: "2026-11-17T02:30". */
export function zonedInput(value: string, timeZone = shownZone()): string {
  const at = moment(value);
  return new Date(at.getTime() + ahead(at, timeZone) * 60_000).toISOString().slice(0, 16);
}

/** The moment that such a field means; empty where it holds none. */
export function zonedMoment(text: string, timeZone = shownZone()): string {
  const wall = Date.parse(`${text}Z`);
  if (!Number.isFinite(wall)) return "";
  const first = wall - ahead(new Date(wall), timeZone) * 60_000;
  return new Date(wall - ahead(new Date(first), timeZone) * 60_000).toISOString(); // the clock may be set in between
}

/** "November 2026", of a day like "2026-11-17". */
export const monthOf = (day: string): string =>
  new Intl.DateTimeFormat(locale(), { month: "long", year: "numeric", timeZone: "UTC" }).format(moment(day));

/** "Tuesday, 17 November", of a day like "2026-11-17". */
export const dayOf = (day: string): string =>
  new Intl.DateTimeFormat(locale(), { weekday: "long", day: "numeric", month: "long", timeZone: "UTC" }).format(
    moment(day),
  );

/** The days of a week from Monday on, short. */
export function weekdays(): string[] {
  const form = new Intl.DateTimeFormat(locale(), { weekday: "short", timeZone: "UTC" });
  return Array.from({ length: 7 }, (_, at) => form.format(new Date(Date.UTC(2024, 0, 1 + at)))); // a Monday
}

/** The hour of a moment, for an axis. */
export const hourOf = (value: string): string => formatsOf(shownZone()).hour.format(moment(value));

/** The day of the month in UTC, for an axis: days are counted by it. */
export const utcDayOf = (value: string): string =>
  new Intl.DateTimeFormat(locale(), { day: "numeric", timeZone: "UTC" }).format(moment(value));

export { ownZone, shownZone };

/** The same moment in UTC, for the title of a place that shows it. */
export function utc(value: string | number | null | undefined): string {
  return value === null || value === undefined || value === "" ? "" : moment(value).toISOString();
}

/** "in 5 min", "3 h ago": as exactly as one wants to know from afar. */
export function ago(value: string | number | null | undefined, now = Date.now()): string {
  if (value === null || value === undefined || value === "") return "–";
  const s = (now - moment(value).getTime()) / 1000;
  const text = rough(Math.abs(s));
  return Math.abs(s) < 1 ? t.now : s > 0 ? t.ago(text) : t.ahead(text);
}

function rough(seconds: number): string {
  if (seconds < 60) return t.seconds(Math.round(seconds));
  if (seconds < 3600) return t.minutes(Math.floor(seconds / 60));
  // Up to two days in hours: "in 1 d" would be said of what is due in almost two.
  return seconds < 172_800 ? t.hours(Math.round(seconds / 3600)) : t.days(Math.round(seconds / 86_400));
}

/** Seconds as people say them: 12 ms, 1.4 s, 3 min 05 s, 2 h 10 min, 4 d. */
export function span(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  if (seconds < 0.9995) return t.milliseconds(Math.round(seconds * 1000));
  if (seconds < 60) return t.seconds(seconds < 10 ? seconds.toFixed(1) : Math.round(seconds));
  const two = (number: number): string => String(Math.floor(number)).padStart(2, "0");
  if (seconds < 3600) return `${t.minutes(Math.floor(seconds / 60))} ${t.seconds(two(seconds % 60))}`;
  if (seconds < 86_400) return `${t.hours(Math.floor(seconds / 3600))} ${t.minutes(two((seconds % 3600) / 60))}`;
  return `${t.days(Math.floor(seconds / 86_400))} ${t.hours(Math.floor((seconds % 86_400) / 3600))}`;
}

export function count(value: number): string {
  numbers ??= new Intl.NumberFormat(locale());
  return numbers.format(value);
}

/** "12 kB", "3.4 MB". */
export function bytes(value: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  for (; value >= 1000 && at < units.length - 1; at++) value /= 1000;
  return `${at && value < 10 ? value.toFixed(1) : Math.round(value)} ${units[at]}`;
}

/** "7 of 1,000 failed", and with items that were not run to their end "1 of 1,000 failed, 600 not run". */
export const failedOf = (failed: number, total: number, unrun = 0): string =>
  t.failedOf(count(failed), count(total)) + (unrun ? t.unrun(count(unrun)) : "");

/** "3 passed over after an error". */
export const passedOver = (items: number): string => t.passedOver(count(items));

/** The state of an execution, a step or a task as it is said; what the server alone knows is said as it says it. */
export const stateWord = (state: string): string => t.states[state] ?? state;

/** "draft" or "step test". */
export const trialWord = (trial: string): string => t.trials[trial] ?? trial;

/** What went wrong, with what was behind it: "task failed after 3 attempts: ValueError: no luck". */
export function reasonOf(error: Record<string, unknown>): string {
  const said = String(error.message ?? error.kind ?? "");
  const cause = error.cause as Record<string, unknown> | null | undefined;
  return cause ? `${said}: ${reasonOf(cause)}` : said;
}

/** A page of HTML is long, and says little; the event holds all of it. */
const LONGEST_ANSWER = 2000;

/** Where in its own code a task broke, as Python writes it; nothing for other errors. */
export function traceOf(error: Record<string, unknown> | null | undefined): string[] {
  if (!error) return [];
  const trace = (error.details as { trace?: unknown } | null | undefined)?.trace;
  if (Array.isArray(trace)) return trace.map(String);
  return traceOf(error.cause as Record<string, unknown> | null | undefined);
}

/** What belongs below an error: its traceback, or what a service answered; nothing for other errors. */
export function detailsOf(error: Record<string, unknown> | null | undefined): string[] {
  if (!error) return [];
  const answer = (error.details as { data?: unknown } | null | undefined)?.data;
  if (error.kind === "http.status" && answer) {
    const text = typeof answer === "string" ? answer : JSON.stringify(answer);
    return [t.answer(text.length > LONGEST_ANSWER ? `${text.slice(0, LONGEST_ANSWER)}…` : text)];
  }
  const trace = (error.details as { trace?: unknown } | null | undefined)?.trace;
  return Array.isArray(trace) ? traceOf(error) : detailsOf(error.cause as Record<string, unknown> | null | undefined);
}

/** The last line of code of a traceback and its place: `start/load, line 2: raise ValueError(n)`. */
export function codeOf(error: Record<string, unknown>): string {
  const trace = traceOf(error);
  const at = trace.findLastIndex((line) => /^ *File "/.test(line));
  const place = /File "(.*)", line (\d+)/.exec(trace[at] ?? "");
  return place ? t.place(place[1]!, place[2]!, (trace[at + 1] ?? "").trim()) : "";
}

/** Ids differ at their end: UUIDv7 begin with the time they share. */
export function shortId(id: string): string {
  return id.length > 12 ? `…${id.slice(-8)}` : id;
}

/** ", with 2 warnings: line 6: …": what a server says about a text it took all the same. Nothing where there is none. */
export function warned(found: { severity: string; line: number; message: string }[]): string {
  const warnings = found.filter((one) => one.severity !== "note");
  const first = warnings[0];
  if (!first) return "";
  return t.warnings(warnings.length, first.line, first.message);
}

// Levels of log lines. The server finds them; here lines below the chosen one are left out.

import { t } from "../../texts/run";
import { plain } from "./ansi";
import type { LiveRun } from "./output.svelte";

/** What can be chosen: lines of this level and of graver ones. */
export const levels = (): { name: string; word: string }[] => [
  { name: "info", word: t.infoAndAbove },
  { name: "warning", word: t.warningsAndAbove },
  { name: "error", word: t.errors },
];
const GRAVITY = "diwec"; // the letters of the levels, debug to critical

/** Whether a line of this letter is shown. */
const isAtLeast = (letter: string, level: string): boolean =>
  !level || GRAVITY.indexOf(letter) >= Math.max(0, GRAVITY.indexOf(level[0]!));

/** The lines of a text that have the level, or a graver one; null where none has. */
export function linesAt(text: string | null, levels: string | undefined, level: string): string | null {
  if (!text || !levels) return null;
  const lines = text.split("\n").filter((_, at) => isAtLeast(levels[at] ?? "-", level));
  return lines.length ? lines.join("\n") : null;
}

/** The letters of those lines. */
export const lettersAt = (levels: string, level: string): string =>
  [...levels].filter((letter) => isAtLeast(letter, level)).join("");

/** The lines of a text that hold what is looked for, with their letters; all of them where none does. */
export function linesHaving(text: string, levels: string, wanted: string): { text: string; levels: string } {
  const lines = text.split("\n");
  const found = lines
    .map((line, at) => ({ line, at }))
    .filter(({ line }) => plain(line).toLowerCase().includes(wanted));
  if (!found.length) return { text, levels };
  return { text: found.map(({ line }) => line).join("\n"), levels: found.map(({ at }) => levels[at] ?? "-").join("") };
}

/** Task runs with the lines that hold what is looked for; all lines of one whose name does. */
export function having(runs: LiveRun[], wanted: string): LiveRun[] {
  if (!wanted) return runs;
  return runs.flatMap((run) => {
    if (`${run.step} ${run.task}`.toLowerCase().includes(wanted)) return [run];
    const lines = run.lines.filter((line) => plain(line.text).toLowerCase().includes(wanted));
    return lines.length ? [{ ...run, lines, total: run.total - run.lines.length + lines.length }] : [];
  });
}

const TONES: Record<string, string> = { w: "amber", e: "red", c: "red" };

/** A text in parts, each with the tone of its lines' level; lines of one tone that follow each other are one part. */
export function toned(text: string, levels: string): { text: string; tone: string }[] {
  const parts: { text: string; tone: string }[] = [];
  text.split("\n").forEach((line, at) => {
    const tone = TONES[levels[at] ?? "-"] ?? "";
    const last = parts.at(-1);
    if (last?.tone === tone) last.text += `\n${line}`;
    else parts.push({ text: last ? `\n${line}` : line, tone });
  });
  return parts;
}

/** Whether only the beginning of what a task printed is stored: the mark that the server or the tool puts at its end. */
export const isCut = (text: string | null): boolean =>
  text !== null && /( … \(cut, \d+ characters\)|\n\.\.\. \d+ more characters)$/.test(text);

/** Task runs with those lines only. */
export function atLevel(runs: LiveRun[], level: string): LiveRun[] {
  if (!level) return runs;
  return runs
    .map((run) => {
      const lines = run.lines.filter((line) => isAtLeast(line.level ?? "-", level));
      return { ...run, lines, total: run.total - run.lines.length + lines.length };
    })
    .filter((run) => run.lines.length);
}

// A value in a few lines: what an execution gave is read at a glance, and opened whole elsewhere.

import { isTable, referenceIn, type ValueEntry, type ValuePage } from "../api/values";
import { bytes, count } from "../words";
import { t } from "../../texts/data";

export interface Line {
  name: string; // empty for a value that is no mapping: that is the only line
  text: string;
}

export interface Brief {
  lines: Line[];
  more: number; // entries that are not among the lines
}

const MOST_LINES = 5;
const LONGEST = 400; // characters of a value
const SHORT = 100; // characters of JSON that stand as they are

export function briefOf(page: ValuePage): Brief {
  if (page.kind === "object" && page.count && !referenceIn(page.value)) {
    const lines = page.is_whole
      ? Object.entries(page.value as Record<string, unknown>)
          .slice(0, MOST_LINES)
          .map(([name, value]) => ({ name, text: textOf(value) }))
      : page.entries.slice(0, MOST_LINES).map((entry) => ({ name: entry.key, text: entryText(entry) }));
    return { lines, more: page.count - lines.length };
  }
  return { lines: [{ name: "", text: page.is_whole ? textOf(page.value) : largeText(page) }], more: 0 };
}

/** True for a value that says nothing: there is none, or it is empty. */
export const isEmpty = (page: ValuePage): boolean => page.kind === "null" || (page.kind === "object" && !page.count);

const cut = (text: string): string => (text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text);

function textOf(value: unknown): string {
  const reference = referenceIn(value);
  if (reference) return isTable(reference) ? t.briefRows(count(reference.row_count ?? 0)) : bytes(reference.size);
  if (typeof value === "string") return cut(value);
  const text = JSON.stringify(value);
  if (value === null || typeof value !== "object" || text.length <= SHORT) return text;
  return `${sizeOf(Array.isArray(value), Object.keys(value).length)}: ${text.slice(0, SHORT)}…`;
}

const sizeOf = (isList: boolean, length: number): string =>
  isList ? t.briefItems(length, count(length)) : t.briefValues(length, count(length));

function entryText(entry: ValueEntry): string {
  if (entry.is_whole) return textOf(entry.value);
  if (entry.kind === "string") return cut(entry.preview);
  return `${sizeOf(entry.kind === "array", entry.count)}, ${bytes(entry.size_bytes)}: ${entry.preview.slice(0, SHORT)}…`;
}

function largeText(page: ValuePage): string {
  if (page.kind === "string") return cut(page.text);
  return `${sizeOf(page.kind === "array", page.count)}, ${bytes(page.size_bytes)}`;
}

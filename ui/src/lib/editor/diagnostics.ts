// Findings of the checker, as the server tells them (POST /api/validate), put where they belong in the text.

import { t } from "../../texts/editor";
import type { Diagnostic as Underline } from "@codemirror/lint";
import type { Text } from "@codemirror/state";
import type { Found } from "../api/shapes";

export type Diagnostic = Pick<
  Found,
  "code" | "severity" | "message" | "hint" | "line" | "column" | "end_line" | "end_column" | "fix"
>;

/** The server counts characters, JavaScript halves of them where they are beyond the basic plane. */
function units(line: string, column: number): number {
  const wanted = Math.max(0, column - 1);
  return /[\ud800-\udfff]/.test(line) ? [...line].slice(0, wanted).join("").length : Math.min(wanted, line.length);
}

/** The place in the document; past its end when the text has changed meanwhile. */
export function offset(document: Text, line: number, column: number): number {
  if (line > document.lines) return document.length;
  const at = document.line(Math.max(1, line));
  return at.from + units(at.text, column);
}

export function underlines(document: Text, found: readonly Diagnostic[], apply: (fix: Fix) => void): Underline[] {
  return found.map((one) => {
    const from = offset(document, one.line, one.column);
    const line = document.lineAt(from);
    const to = one.end_line ? offset(document, one.end_line, one.end_column ?? 1) : line.to;
    const fix = one.fix;
    return {
      from,
      to: Math.max(to, Math.min(from + 1, document.length)),
      severity: one.severity === "error" || one.severity === "warning" ? one.severity : "info",
      source: one.code,
      message: one.hint ? `${one.message}\n${one.hint}` : one.message,
      actions: fix ? [{ name: fixTitle(fix), apply: () => apply(fix) }] : [],
    };
  });
}

export type Fix = NonNullable<Diagnostic["fix"]>;

/** What a press on a fix does, in a few words. */
export const fixTitle = (fix: Fix): string => fix.title || t.replaceWith(fix.replacement);

/** What a fix changes in the text that it was found in. */
export const changesOf = (document: Text, fix: Fix): { from: number; to: number; insert: string }[] =>
  [fix, ...fix.also].map((edit) => ({
    from: offset(document, edit.line, edit.column),
    to: offset(document, edit.end_line ?? edit.line, edit.end_column),
    insert: edit.replacement,
  }));

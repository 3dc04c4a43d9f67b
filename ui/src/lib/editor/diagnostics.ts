// Findings of the checker, as the server tells them (POST /api/validate), put where they belong in the text.

import type { Diagnostic as Underline } from "@codemirror/lint";
import type { Text } from "@codemirror/state";

export interface Diagnostic {
  code: string;
  severity: "error" | "warning" | "note" | "info";
  message: string;
  hint?: string | null;
  line: number; // from 1
  column: number; // from 1
  end_line?: number | null;
  end_column?: number | null;
  fix?: { replacement: string } | null;
}

/** The place in the document; past its end when the text has changed meanwhile. */
export function offset(document: Text, line: number, column: number): number {
  if (line > document.lines) return document.length;
  const at = document.line(Math.max(1, line));
  return Math.min(at.from + Math.max(0, column - 1), at.to);
}

export function underlines(document: Text, found: readonly Diagnostic[]): Underline[] {
  return found.map((one) => {
    const from = offset(document, one.line, one.column);
    const line = document.lineAt(from);
    const to = one.end_line ? offset(document, one.end_line, one.end_column ?? 1) : line.to;
    const fix = one.fix;
    return {
      from,
      to: Math.max(to, Math.min(from + 1, document.length)),
      severity: one.severity === "note" ? "info" : one.severity,
      source: one.code,
      message: one.hint ? `${one.message}\n${one.hint}` : one.message,
      actions: fix
        ? [{ name: `Replace with ${fix.replacement}`, apply: (view, start, end) => view.dispatch({ changes: { from: start, to: end, insert: fix.replacement } }) }]
        : [],
    };
  });
}

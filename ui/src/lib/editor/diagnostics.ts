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

/** The text with a hint's proposal taken. */
export function fixed(text: string, fix: NonNullable<Diagnostic["fix"]>): string {
  const lines = text.split("\n");
  const line = lines[fix.line - 1] ?? "";
  lines[fix.line - 1] =
    line.slice(0, units(line, fix.column)) + fix.replacement + line.slice(units(line, fix.end_column));
  return lines.join("\n");
}

/** The place in the document; past its end when the text has changed meanwhile. */
export function offset(document: Text, line: number, column: number): number {
  if (line > document.lines) return document.length;
  const at = document.line(Math.max(1, line));
  return at.from + units(at.text, column);
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
      severity: one.severity === "error" || one.severity === "warning" ? one.severity : "info",
      source: one.code,
      message: one.hint ? `${one.message}\n${one.hint}` : one.message,
      actions: fix
        ? [
            {
              name: t.replaceWith(fix.replacement),
              apply: (view) =>
                view.dispatch({
                  changes: {
                    from: offset(view.state.doc, fix.line, fix.column),
                    to: offset(view.state.doc, fix.line, fix.end_column),
                    insert: fix.replacement,
                  },
                }),
            },
          ]
        : [],
    };
  });
}

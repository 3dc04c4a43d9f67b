// Braces and brackets around a place of the text, on one line or over several: where they begin, and what stands in them.

import type { Text } from "@codemirror/state";

const MOST_LINES = 200; // of one collection; a longer one is no longer read, so that a key costs little
const BEGIN = /^(\s*(?:- )*)(?:(["']?)([\w./-]+)\2\s*:\s+)?(?=[{[])/;
const QUOTED_OR_COMMENT = /"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|(?:^|\s)#.*/g;
const TOKEN = /"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|#[^\n]*|[{}[\],]|[^\s{}[\],"']+/g;

/** The line that a collection begins on: what stands before the bracket. */
export interface FlowStart {
  line: number;
  indent: string; // spaces and dashes
  key: string; // whose value the collection is; empty for an item of a list
  from: number; // offset of the bracket
}

/** How many brackets a line opens more than it closes, and the most that it closes of those before it. */
function depths(line: string): { open: number; closed: number } {
  let open = 0;
  let closed = 0;
  for (const sign of line.replace(QUOTED_OR_COMMENT, "")) {
    if (sign === "{" || sign === "[") open++;
    else if (sign === "}" || sign === "]") closed = Math.max(closed, -(open -= 1));
  }
  return { open, closed };
}

/** The outermost collection that is open at a place; nothing where none is. `before` is the line up to there. */
export function flowStart(document: Text, lineNumber: number, before: string): FlowStart | null {
  let found: FlowStart | null = null;
  let missing = 0; // brackets that lines below close and that no line has opened yet
  let least = Infinity;
  for (let number = lineNumber; number >= 1 && number > lineNumber - MOST_LINES; number--) {
    const line = number === lineNumber ? before : document.line(number).text;
    if (!line.trim() || /^\s*#/.test(line)) continue;
    const indent = line.length - line.trimStart().length;
    const { open, closed } = depths(line);
    const opened = open + closed; // brackets that are open at its end and that it has opened
    if (opened > missing) {
      const begin = BEGIN.exec(line);
      if (begin)
        found = {
          line: number,
          indent: begin[1]!,
          key: begin[3] ?? "",
          from: document.line(number).from + begin[0].length,
        };
      else found = null; // a bracket within a text
    }
    missing = Math.max(0, missing - opened) + closed;
    // A line further left that is no part of a collection is around it.
    const isPart = opened > 0 || closed > 0 || missing > 0 || /,\s*(#.*)?$/.test(line);
    if (number < lineNumber && !isPart && indent < least) break;
    least = Math.min(least, indent);
  }
  return found;
}

/** Whether a text ends within quotes. */
export const isInQuotes = (text: string): boolean => /["']/.test(text.replace(QUOTED_OR_COMMENT, ""));

/** A mapping or list that is open. */
export interface Level {
  sign: string;
  path: string[];
  siblings: Record<string, string>;
  key: string; // whose value comes next, or is there
}

export interface Word {
  path: string[]; // of the key, or of the key whose value this is
  siblings: Record<string, string>;
  word: string;
  from: number; // offset in the text that was walked
  isValue: boolean;
}

const unquoted = (token: string): string => token.replace(/^["']|["']$/g, "");

/** Keys and values of a collection, in their order, and the levels that are open at its end: none if it is closed. */
export function walkFlow(text: string, outer: string[]): { words: Word[]; open: Level[] } {
  const words: Word[] = [];
  const open: Level[] = [];
  let isDone = false;
  for (const found of text.matchAll(TOKEN)) {
    const [token] = found;
    if (token.startsWith("#") && (found.index === 0 || /\s/.test(text[found.index - 1]!))) continue;
    if (isDone) break;
    const inner = open.at(-1);
    if (token === "{" || token === "[") {
      const path = !inner ? outer : inner.key ? [...inner.path, inner.key] : inner.path;
      open.push({ sign: token, path: token === "[" ? [...path, "-"] : path, siblings: {}, key: "" });
    } else if (token === "}" || token === "]") {
      open.pop();
      isDone = !open.length;
    } else if (!inner) continue;
    else if (token === ",") inner.key = "";
    else if (token.endsWith(":") && token.length > 1 && inner.sign === "{") {
      inner.key = unquoted(token.slice(0, -1));
      const path = [...inner.path, inner.key];
      words.push({ path, siblings: inner.siblings, word: inner.key, from: found.index, isValue: false });
    } else if (inner.key) {
      inner.siblings[inner.key] = unquoted(token);
      const path = [...inner.path, inner.key];
      words.push({ path, siblings: inner.siblings, word: token, from: found.index, isValue: true });
    }
  }
  return { words, open };
}

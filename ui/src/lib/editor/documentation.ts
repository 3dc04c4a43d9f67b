// What the key under the pointer is for: the words of the playbook schema, by the place in the text.

import type { Text } from "@codemirror/state";
import { around, schemasAt, siblingsAt, type Schema } from "./completion";

export interface Documentation {
  from: number; // column of the word, from zero
  to: number;
  word: string;
  text: string;
  values: string[]; // that it may have
}

interface Place {
  path: string[];
  siblings: Record<string, string>;
  word: string;
  from: number;
  isValue: boolean;
  value: string; // of a key, where it stands beside it
}

const BLOCK = /^(\s*(?:- )*)(["']?)([\w./-]+)\2\s*:(\s+|$)/;
const TOKEN = /"(?:[^"\\]|\\.)*"|'[^']*'|[{}[\],]|[\w./-]+(\s*:(?=\s|$))?/g;

/** Keys within `{ … }` on a line, with the path of each; a word behind a key is its value. */
function flowPlaces(text: string, begin: number, base: string[]): Place[] {
  const found: Place[] = [];
  const open: { sign: string; path: string[]; siblings: Record<string, string> }[] = [];
  let path = base;
  for (const token of text.slice(begin).matchAll(TOKEN)) {
    const [word] = token;
    const from = begin + token.index;
    const inner = open.at(-1);
    if (word === "{" || word === "[") {
      const within = word === "[" ? [...path, "-"] : path;
      open.push({ sign: word, path: within, siblings: {} });
      path = within;
    } else if (word === "}" || word === "]") {
      open.pop();
      path = open.at(-1)?.path ?? base;
    } else if (word === ",") path = inner?.path ?? base;
    else if (token[1] !== undefined && inner?.sign === "{") {
      const key = word.slice(0, word.length - token[1].length);
      path = [...inner.path, key];
      found.push({ path, siblings: inner.siblings, word: key, from, isValue: false, value: "" });
    } else if (inner?.sign === "{" && path.length > inner.path.length) {
      const value = word.replace(/^["']|["']$/g, "");
      inner.siblings[path.at(-1)!] = value;
      const key = found.findLast((one) => one.path === path);
      if (key) key.value = value;
      found.push({ path, siblings: inner.siblings, word, from, isValue: true, value });
    }
  }
  return found;
}

function placeAt(document: Text, lineNumber: number, column: number): Place | null {
  const { text } = document.line(lineNumber);
  const block = BLOCK.exec(text);
  if (!block) return null;
  const [whole, indent, , key] = block as unknown as [string, string, string, string];
  const path = [...around(document, lineNumber, indent), key];
  const siblings = siblingsAt(document, lineNumber, indent.length);
  const value = text.slice(whole.length);
  const isWord = /^[\w./-]+$/.test(value);
  const places: Place[] = [
    { path, siblings, word: key, from: indent.length, isValue: false, value: isWord ? value : "" },
  ];
  if (/^[{[]/.test(value)) places.push(...flowPlaces(text, whole.length, path));
  else if (isWord) places.push({ path, siblings, word: value, from: whole.length, isValue: true, value });
  return places.find((one) => one.from <= column && column < one.from + one.word.length) ?? null;
}

/** The words about the key or value at a place of the text; nothing where the schema has none. */
export function documentationAt(
  schema: Schema,
  document: Text,
  lineNumber: number,
  column: number,
): Documentation | null {
  const place = placeAt(document, lineNumber, column);
  if (!place) return null;
  const found = schemasAt(schema, place.path, place.siblings, 1);
  // Words about one value are about the key only where it has that value: a kind is one of forty.
  const value = place.isValue ? place.word : place.value;
  const own = found.filter((one) => (place.isValue || one.const !== undefined ? String(one.const) === value : true));
  const words = [...new Set(own.map((one) => one.description).filter((one) => one !== undefined))];
  // "A template" applies to nearly every value, and does not explain what a key is for.
  const said = words.filter((one) => !one.startsWith("A template:"));
  const values = place.isValue ? [] : [...new Set(found.flatMap((one) => one.enum ?? []).map(String))];
  if (!said.length && !values.length) return null;
  return { from: place.from, to: place.from + place.word.length, word: place.word, text: said.join(" "), values };
}

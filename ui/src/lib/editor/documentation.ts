// What the key under the pointer is for: the words of the playbook schema, by the place in the text.

import type { Text } from "@codemirror/state";
import { around, schemasAt, siblingsAt, type Schema } from "./completion";
import { flowStart, walkFlow } from "./flow";

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
const MOST_CHARACTERS = 20_000; // of one collection

/** The key or value of a `{ … }` that is under the pointer, wherever the collection begins and ends. */
function flowPlace(document: Text, lineNumber: number, column: number): Place | null {
  const { text, from: lineFrom } = document.line(lineNumber);
  const begin = flowStart(document, lineNumber, text.slice(0, column + 1));
  if (!begin) return null;
  const base = around(document, begin.line, begin.indent);
  const whole = document.sliceString(begin.from, Math.min(document.length, begin.from + MOST_CHARACTERS));
  const { words } = walkFlow(whole, begin.key ? [...base, begin.key] : base);
  const at = lineFrom + column - begin.from;
  const found = words.find((one) => one.from <= at && at < one.from + one.word.length);
  if (!found) return null;
  const value = found.siblings[found.path.at(-1)!] ?? "";
  return { ...found, from: begin.from + found.from - lineFrom, value };
}

function placeAt(document: Text, lineNumber: number, column: number): Place | null {
  const inFlow = flowPlace(document, lineNumber, column);
  if (inFlow) return inFlow;
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
  if (isWord) places.push({ path, siblings, word: value, from: whole.length, isValue: true, value });
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

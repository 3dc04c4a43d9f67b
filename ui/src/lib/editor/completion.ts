// What can be written here: keys and values from the playbook schema by the path of the cursor, names that only the
// server knows (steps, tasks, credentials), and those that the text itself gives to its templates.

import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import type { Text } from "@codemirror/state";
import { flowStart, isInQuotes, walkFlow, type Level } from "./flow";
import { templateNames } from "./names";
import { stepNames } from "./steps";

export interface Words {
  schema?: Schema;
  steps?: string[];
  tasks?: string[];
  credentials?: string[];
  kinds?: string[];
  /** The names that a template can read at a place of a text, asked of the checker; the offset counts code points. */
  names?: (text: string, offset: number) => Promise<string[]>;
}

export interface Schema {
  $ref?: string;
  $defs?: Record<string, Schema>;
  definitions?: Record<string, Schema>;
  properties?: Record<string, Schema>;
  patternProperties?: Record<string, Schema>;
  additionalProperties?: Schema | boolean;
  items?: Schema | Schema[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  required?: string[];
  if?: Schema;
  then?: Schema;
  else?: Schema;
  enum?: unknown[];
  const?: unknown;
  type?: string | string[];
  description?: string;
  deprecated?: boolean; // another spelling of a key
  default?: unknown;
}

interface Line {
  marks: number[]; // columns of the dashes that begin it
  own: number; // column of what comes after them
  key: string;
  value: string;
}

function read(text: string): Line | null {
  if (!text.trim() || text.trimStart().startsWith("#")) return null;
  let own = text.length - text.trimStart().length;
  let rest = text.slice(own);
  const marks: number[] = [];
  while (rest.startsWith("- ") || rest === "-") {
    marks.push(own);
    const inner = rest.slice(1).length - rest.slice(1).trimStart().length + 1;
    own += inner;
    rest = rest.slice(inner);
  }
  const found = /^(["']?)([\w./-]+)\1\s*:\s*(.*)$/.exec(rest);
  return { marks, own, key: found?.[2] ?? "", value: (found?.[3] ?? "").trim().replace(/^["']|["']$/g, "") };
}

/** The keys around a line, outermost first; a list item is "-". Read from indentation, so that it works in broken text.
 * Half a column more than a dash has stands for its list: the key above it may be in the same column (YAML lets it), and
 * the dashes of its siblings are no parents of it. */
export function pathAt(document: Text, lineNumber: number, column: number): string[] {
  const path: string[] = [];
  let indent = column;
  for (let number = lineNumber - 1; number >= 1 && indent > 0; number--) {
    const line = read(document.line(number).text);
    if (!line) continue;
    if (line.key && line.own < indent) {
      path.unshift(line.key);
      indent = line.own;
    }
    for (const mark of line.marks.reverse()) {
      if (mark >= Math.floor(indent)) continue;
      path.unshift("-");
      indent = mark + 0.5;
    }
  }
  return path;
}

/** What stands beside a key in the same mapping, as text: the `kind` of a task says what else it may have. */
export function siblingsAt(document: Text, lineNumber: number, column: number): Record<string, string> {
  const found: Record<string, string> = {};
  const look = (number: number): boolean => {
    const line = read(document.line(number).text);
    if (!line) return true;
    if (line.own < column) return false;
    if (line.own === column && line.key) found[line.key] = line.value;
    return true;
  };
  const begins = (number: number): boolean => (read(document.line(number).text)?.marks ?? []).some((at) => at < column);
  for (let number = lineNumber; !begins(number) && --number >= 1 && look(number););
  for (let number = lineNumber; ++number <= document.lines && !begins(number) && look(number););
  return found;
}

/** Whether a condition of the schema holds for what is there; nothing where that is not known yet. */
function holds(condition: Schema, siblings: Record<string, string>): boolean | undefined {
  if (!condition.required && !condition.properties) return undefined; // of its shape, which the text does not tell
  for (const name of condition.required ?? []) {
    if (!(name in siblings)) return "kind" in siblings ? false : undefined;
  }
  for (const [name, wanted] of Object.entries(condition.properties ?? {})) {
    if (!siblings[name]) return undefined;
    const allowed = wanted.enum ?? (wanted.const !== undefined ? [wanted.const] : null);
    if (allowed && !allowed.map(String).includes(siblings[name])) return false;
  }
  return true;
}

function resolved(schema: Schema, root: Schema, siblings: Record<string, string> = {}): Schema[] {
  const found: Schema[] = [];
  const pending = [schema];
  const seen = new Set<Schema>();
  while (pending.length) {
    const one = pending.pop()!;
    if (seen.has(one)) continue;
    seen.add(one);
    if (one.$ref) {
      const parts = one.$ref.replace(/^#\//, "").split("/");
      let target: unknown = root;
      for (const part of parts) target = (target as Record<string, unknown> | undefined)?.[part];
      if (target) pending.push(target as Schema);
    }
    found.push(one);
    for (const more of [one.anyOf, one.oneOf, one.allOf]) if (more) pending.push(...more);
    const is = one.if && holds(one.if, siblings);
    if (one.then && is !== false) pending.push(one.then);
    if (one.else && is !== true) pending.push(one.else);
  }
  return found;
}

/** Every schema that may hold at a path. `siblings` are beside its last key, or in the mapping that it names. */
export function schemasAt(root: Schema, path: string[], siblings: Record<string, string> = {}, depth = 0): Schema[] {
  const known = (at: number): Record<string, string> => (at === path.length - depth ? siblings : {});
  let here = resolved(root, root, known(0));
  for (const [at, part] of path.entries()) {
    const inner: Schema[] = [];
    for (const one of here) {
      if (part === "-") inner.push(...(Array.isArray(one.items) ? one.items : one.items ? [one.items] : []));
      else if (one.properties?.[part]) inner.push(one.properties[part]!);
      else if (one.patternProperties) inner.push(...Object.values(one.patternProperties));
      else if (typeof one.additionalProperties === "object") inner.push(one.additionalProperties);
    }
    here = inner.flatMap((one) => resolved(one, root, known(at + 1)));
  }
  return here;
}

/** What a key is for: its own words, else those of what it holds. */
function wordsOf(inner: Schema, root: Schema): string | undefined {
  const said = resolved(inner, root).map((one) => one.description);
  return (inner.description ?? said.find((one) => one && !one.startsWith("A template:")))?.split(". ")[0];
}

/** Whether what is here depends on its `kind`: before that is written, nothing else can be said of it. */
const needsKind = (found: Schema[]): boolean =>
  found.some((one) => one.if?.properties?.kind && one.if.required?.includes("kind"));

function keys(root: Schema, path: string[], siblings: Record<string, string>, typed: string): Completion[] {
  const found = new Map<string, Completion>();
  const here = schemasAt(root, path, siblings);
  const add = (one: Schema, begin: string, isKindless: boolean): void => {
    for (const [name, inner] of Object.entries(one.properties ?? {})) {
      if (found.has(name) || name in siblings || (isKindless && name !== "kind")) continue;
      // Another spelling of a key is there for whoever types it, and drowns no list.
      if (inner.deprecated && !(typed && name.startsWith(typed))) continue;
      found.set(name, {
        label: name,
        apply: `${begin}${name}: `,
        type: "property",
        detail: wordsOf(inner, root),
        boost: inner.deprecated ? -50 : one.required?.includes(name) ? 1 : 0,
      });
    }
  };
  const isKindless = !siblings.kind && needsKind(here);
  for (const one of here) add(one, "", isKindless);
  if (found.size || path.at(-1) === "-") return [...found.values()];
  const items = schemasAt(root, [...path, "-"]); // of a list whose first item is not begun yet
  for (const one of items) add(one, "- ", needsKind(items));
  return [...found.values()];
}

function values(root: Schema, path: string[], siblings: Record<string, string>): Completion[] {
  const found = new Map<string, Completion>();
  for (const one of schemasAt(root, path, siblings, 1)) {
    const choices = [
      ...(one.enum ?? []),
      ...(one.const !== undefined ? [one.const] : []),
      ...(one.type === "boolean" ? [true, false] : []),
    ];
    for (const choice of choices) {
      const [label, spelling] = [String(choice), String(choice).toLowerCase()]; // GET and get are one choice
      const before = found.get(spelling);
      const detail = (one.const !== undefined ? one.description : undefined) ?? before?.detail;
      found.set(spelling, { label: before?.label ?? label, type: "enum", detail });
    }
  }
  return [...found.values()];
}

const plain = (names: string[] | undefined, type: string): Completion[] =>
  (names ?? []).map((label) => ({ label, type }));

/** Names that a value of this key may have, beyond what the schema lists. */
function named(key: string, words: Words, document: Text): Completion[] {
  if (["step", "entry_step", "alternative_step", "return_step"].includes(key)) {
    const own = stepNames(document.toString()); // of the text as it stands: the checker knows no step of a broken one
    return plain(own.length ? own : words.steps, "function");
  }
  if (["to", "task"].includes(key)) return plain(words.tasks, "function");
  if (["auth", "credential"].includes(key)) return plain(words.credentials, "constant");
  if (key === "kind") return plain(words.kinds, "class");
  return [];
}

const TEMPLATE_NAME = /^[\w.]*$/;

/** Names for a template: those that the checker lets pass there; where it cannot tell, those that stand in the text. */
async function templateResult(
  words: Words | undefined,
  context: CompletionContext,
  from: number,
): Promise<CompletionResult | null> {
  const text = context.state.doc.toString();
  const told = await words?.names?.(text, [...text.slice(0, context.pos)].length).catch(() => []);
  if (context.aborted) return null;
  const names = told?.length ? told : [...new Set([...templateNames(text), ...(words?.steps ?? [])])];
  // The rarely used ones come last.
  const options = names.map((label) => ({ label, type: "variable", boost: label.startsWith("_") ? -10 : 0 }));
  return { from, options, validFor: TEMPLATE_NAME };
}

const OPEN_TEMPLATE = /\{\{(?:(?!\}\}).)*?([\w.]*)$/;
const MOST_TEMPLATE_LINES = 10;

/** A template that is open at the end of a line, with what is typed of a name; it may have begun some lines above. */
function openTemplate(document: Text, lineNumber: number, before: string): RegExpExecArray | null {
  const here = OPEN_TEMPLATE.exec(before);
  if (here || before.includes("}}")) return here;
  for (let number = lineNumber - 1; number >= 1 && number > lineNumber - MOST_TEMPLATE_LINES; number--) {
    const { text } = document.line(number);
    if (OPEN_TEMPLATE.test(text)) return /([\w.]*)$/.exec(before);
    // Lines of a template are neither keys nor items; a text without an end is no template.
    if (text.includes("}}") || /^\s*(- |[\w-]+:(\s|$))/.test(text)) return null;
  }
  return null;
}

export function complete(
  words: Words | undefined,
  context: CompletionContext,
): CompletionResult | null | Promise<CompletionResult | null> {
  const document = context.state.doc;
  const line = document.lineAt(context.pos);
  const before = line.text.slice(0, context.pos - line.from);
  const template = openTemplate(document, line.number, before);
  if (template) return templateResult(words, context, context.pos - template[1]!.length);
  if (!words) return null;
  const inBraces = words.schema && bracesAt(document, line.number, before);
  if (inBraces) return flowResult(words, inBraces, context);
  const value = /^(\s*(?:- )*)(["']?)([\w./-]+)\2\s*:\s+(["']?)([\w./-]*)$/.exec(before);
  if (value) {
    const key = value[3]!;
    const path = [...around(document, line.number, value[1]!), key];
    const siblings = siblingsAt(document, line.number, value[1]!.length);
    const options = [...named(key, words, document), ...(words.schema ? values(words.schema, path, siblings) : [])];
    return options.length ? { from: context.pos - value[5]!.length, options, validFor: /^[\w./-]*$/ } : null;
  }
  const key = /^(\s*(?:- )*)([\w-]*)$/.exec(before);
  if (key && words.schema && (key[2] || context.explicit)) {
    const path = around(document, line.number, key[1]!);
    const siblings = siblingsAt(document, line.number, key[1]!.length);
    const options = keys(words.schema, path, siblings, key[2]!);
    // The first letter asks anew: it may begin another spelling.
    return { from: context.pos - key[2]!.length, options, validFor: key[2] ? /^[\w-]*$/ : undefined };
  }
  return null;
}

interface Flow {
  path: string[]; // of the mapping or list that is open
  siblings: Record<string, string>;
  key: string; // whose value is written; empty where a key is
  typed: string;
}

const MOST_REST = 2_000; // characters behind the cursor

/** Where one writes within `{ … }`, begun on this line or above; nothing elsewhere, and none within quotes. */
function bracesAt(document: Text, lineNumber: number, before: string): Flow | null {
  const begin = flowStart(document, lineNumber, before);
  if (!begin) return null;
  const pos = document.line(lineNumber).from + before.length;
  const typed = /[\w./-]*$/.exec(before)![0];
  const text = document.sliceString(begin.from, pos - typed.length);
  if (isInQuotes(text)) return null;
  const base = around(document, begin.line, begin.indent);
  const level = walkFlow(text, begin.key ? [...base, begin.key] : base).open.at(-1);
  if (!level || (level.key && level.key in level.siblings)) return null; // its value is there
  const rest = document.sliceString(pos, Math.min(document.length, pos + MOST_REST));
  return { path: level.path, siblings: { ...siblingsBehind(level, rest), ...level.siblings }, key: level.key, typed };
}

/** What stands behind the cursor in the same braces, if they are closed: a kind says which keys there are. */
function siblingsBehind({ sign, key }: Level, rest: string): Record<string, string> {
  const { words, open } = walkFlow(`${sign}${key ? `${key}: ` : ""}${rest.replace(/^[\w./-]*/, "")}`, []);
  return (!open.length && words.find((one) => one.path.length === 1 && one.path[0] !== "-")?.siblings) || {};
}

function flowResult(
  words: Words,
  { path, siblings, key, typed }: Flow,
  context: CompletionContext,
): CompletionResult | null {
  const from = context.pos - typed.length;
  const schema = words.schema!;
  if (key) {
    const options = [...named(key, words, context.state.doc), ...values(schema, [...path, key], siblings)];
    return options.length ? { from, options, validFor: /^[\w./-]*$/ } : null;
  }
  if (!typed && !context.explicit) return null;
  const options = keys(schema, path, siblings, typed).filter((one) => one.apply === `${one.label}: `);
  return { from, options, validFor: typed ? /^[\w-]*$/ : undefined };
}

/** The path of what begins with `indent`, the spaces and dashes before it. */
export function around(document: Text, lineNumber: number, indent: string): string[] {
  const marks = [...indent.matchAll(/- /g)].map(() => "-");
  const spaces = indent.length - indent.trimStart().length;
  return [...pathAt(document, lineNumber, marks.length ? spaces + 0.5 : spaces), ...marks];
}

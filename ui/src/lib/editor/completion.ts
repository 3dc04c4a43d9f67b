// What can be written here: keys and values from the playbook schema by the path of the cursor, names that only the
// server knows (steps, tasks, credentials), and those that the text itself gives to its templates.

import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import type { Text } from "@codemirror/state";
import { templateNames } from "./names";

export interface Words {
  schema?: Schema;
  steps?: string[];
  tasks?: string[];
  credentials?: string[];
  kinds?: string[];
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

function keys(root: Schema, path: string[], siblings: Record<string, string>): Completion[] {
  const found = new Map<string, Completion>();
  for (const one of schemasAt(root, path, siblings)) {
    for (const [name, inner] of Object.entries(one.properties ?? {})) {
      if (!found.has(name) && !(name in siblings))
        found.set(name, {
          label: name,
          apply: `${name}: `,
          type: "property",
          detail: inner.description?.split(". ")[0],
        });
    }
  }
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
    for (const choice of choices) found.set(String(choice), { label: String(choice), type: "enum" });
  }
  return [...found.values()];
}

/** What a template of every playbook can read. */
const ALWAYS = [
  "workload.",
  "ctx.",
  "args.",
  "iter.",
  "event.name",
  "event.result",
  "outcome.status",
  "outcome.result",
  "_prev",
  "keychain.",
];

const plain = (names: string[] | undefined, type: string): Completion[] =>
  (names ?? []).map((label) => ({ label, type }));

/** Names that a value of this key may have, beyond what the schema lists. */
function named(key: string, words: Words): Completion[] {
  if (["step", "entry_step", "alternative_step", "return_step"].includes(key)) return plain(words.steps, "function");
  if (["to", "task"].includes(key)) return plain(words.tasks, "function");
  if (["auth", "credential"].includes(key)) return plain(words.credentials, "constant");
  if (key === "kind") return plain(words.kinds, "class");
  return [];
}

export function complete(words: Words | undefined, context: CompletionContext): CompletionResult | null {
  const document = context.state.doc;
  const line = document.lineAt(context.pos);
  const before = line.text.slice(0, context.pos - line.from);
  const template = /\{\{(?:(?!\}\}).)*?([\w.]*)$/.exec(before);
  if (template) {
    const names = new Set([...ALWAYS, ...templateNames(document.toString()), ...(words?.steps ?? [])]);
    return { from: context.pos - template[1]!.length, options: plain([...names], "variable"), validFor: /^[\w.]*$/ };
  }
  if (!words) return null;
  const value = /^(\s*(?:- )*)(["']?)([\w./-]+)\2\s*:\s+(["']?)([\w./-]*)$/.exec(before);
  if (value) {
    const key = value[3]!;
    const path = [...around(document, line.number, value[1]!), key];
    const siblings = siblingsAt(document, line.number, value[1]!.length);
    const options = [...named(key, words), ...(words.schema ? values(words.schema, path, siblings) : [])];
    return options.length ? { from: context.pos - value[5]!.length, options, validFor: /^[\w./-]*$/ } : null;
  }
  const key = /^(\s*(?:- )*)([\w-]*)$/.exec(before);
  if (key && words.schema && (key[2] || context.explicit)) {
    const path = around(document, line.number, key[1]!);
    const siblings = siblingsAt(document, line.number, key[1]!.length);
    return { from: context.pos - key[2]!.length, options: keys(words.schema, path, siblings), validFor: /^[\w-]*$/ };
  }
  return null;
}

/** The path of what begins with `indent`, the spaces and dashes before it. */
export function around(document: Text, lineNumber: number, indent: string): string[] {
  const marks = [...indent.matchAll(/- /g)].map(() => "-");
  const spaces = indent.length - indent.trimStart().length;
  return [...pathAt(document, lineNumber, marks.length ? spaces + 0.5 : spaces), ...marks];
}

// What can be written here: keys and values from the playbook schema by the path of the cursor, and the names that
// only the server knows (steps, tasks, credentials, names a template sees).

import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import type { Text } from "@codemirror/state";

export interface Words {
  schema?: Schema;
  steps?: string[];
  tasks?: string[];
  credentials?: string[];
  names?: string[];
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
  if?: Schema;
  then?: Schema;
  else?: Schema;
  enum?: unknown[];
  const?: unknown;
  type?: string | string[];
  description?: string;
  default?: unknown;
}

/** The keys around a line, outermost first; a list item is "-". Read from indentation, so that it works in broken text. */
export function pathAt(document: Text, lineNumber: number, column: number): string[] {
  const path: string[] = [];
  let indent = column;
  for (let number = lineNumber - 1; number >= 1 && indent > 0; number--) {
    const text = document.line(number).text;
    if (!text.trim() || text.trimStart().startsWith("#")) continue;
    let own = text.length - text.trimStart().length;
    let rest = text.slice(own);
    const marks: { at: number; name: string }[] = [];
    while (rest.startsWith("- ") || rest === "-") {
      marks.push({ at: own, name: "-" });
      const inner = rest.slice(1).length - rest.slice(1).trimStart().length + 1;
      own += inner;
      rest = rest.slice(inner);
    }
    const key = /^(["']?)([\w./-]+)\1\s*:/.exec(rest);
    if (key && own < indent) {
      path.unshift(key[2]!);
      indent = own;
    }
    for (const mark of marks.reverse()) {
      if (mark.at < indent) {
        path.unshift(mark.name);
        indent = mark.at;
      }
    }
  }
  return path;
}

function resolved(schema: Schema, root: Schema): Schema[] {
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
    for (const more of [one.then, one.else]) if (more) pending.push(more);
  }
  return found;
}

/** Every schema that may hold at a path. */
export function schemasAt(root: Schema, path: string[]): Schema[] {
  let here = resolved(root, root);
  for (const part of path) {
    const inner: Schema[] = [];
    for (const one of here) {
      if (part === "-") inner.push(...(Array.isArray(one.items) ? one.items : one.items ? [one.items] : []));
      else if (one.properties?.[part]) inner.push(one.properties[part]!);
      else if (one.patternProperties) inner.push(...Object.values(one.patternProperties));
      else if (typeof one.additionalProperties === "object") inner.push(one.additionalProperties);
    }
    here = inner.flatMap((one) => resolved(one, root));
  }
  return here;
}

function keys(root: Schema, path: string[]): Completion[] {
  const found = new Map<string, Completion>();
  for (const one of schemasAt(root, path)) {
    for (const [name, inner] of Object.entries(one.properties ?? {})) {
      if (!found.has(name))
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

function values(root: Schema, path: string[]): Completion[] {
  const found = new Map<string, Completion>();
  for (const one of schemasAt(root, path)) {
    const choices = [
      ...(one.enum ?? []),
      ...(one.const !== undefined ? [one.const] : []),
      ...(one.type === "boolean" ? [true, false] : []),
    ];
    for (const choice of choices) found.set(String(choice), { label: String(choice), type: "enum" });
  }
  return [...found.values()];
}

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
  if (!words) return null;
  const document = context.state.doc;
  const line = document.lineAt(context.pos);
  const before = line.text.slice(0, context.pos - line.from);
  const template = /\{\{(?:(?!\}\}).)*?([\w.]*)$/.exec(before);
  if (template) {
    return { from: context.pos - template[1]!.length, options: plain(words.names, "variable"), validFor: /^[\w.]*$/ };
  }
  const value = /^(\s*(?:- )*)(["']?)([\w./-]+)\2\s*:\s+(["']?)([\w./-]*)$/.exec(before);
  if (value) {
    const key = value[3]!;
    const path = [...pathAt(document, line.number, value[1]!.length), ...listMarks(value[1]!), key];
    const options = [...named(key, words), ...(words.schema ? values(words.schema, path) : [])];
    return options.length ? { from: context.pos - value[5]!.length, options, validFor: /^[\w./-]*$/ } : null;
  }
  const key = /^(\s*(?:- )*)([\w-]*)$/.exec(before);
  if (key && words.schema && (key[2] || context.explicit)) {
    const path = [...pathAt(document, line.number, key[1]!.length), ...listMarks(key[1]!)];
    return { from: context.pos - key[2]!.length, options: keys(words.schema, path), validFor: /^[\w-]*$/ };
  }
  return null;
}

function listMarks(indent: string): string[] {
  return [...indent.matchAll(/- /g)].map(() => "-");
}

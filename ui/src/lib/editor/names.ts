// The names that templates of a playbook can read, as its text gives them: inputs, variables, iterators, results of steps
// and their form fields.
// Read line by line, so that a text with errors gives what it can.

import { walkFlow } from "./flow";

const MOST_FLOW_LINES = 50; // of braces
const SCOPES: Record<string, string> = {
  workload: "workload",
  ctx: "ctx",
  set_ctx: "ctx",
  set_iter: "iter",
  args: "args",
};

const indentOf = (line: string): number => line.length - line.trimStart().length;

/** Keys of the mapping that begins in a line: those in its braces, or the lines below it that are one level in. */
function keysBelow(lines: readonly string[], at: number, column: number, rest: string): string[] {
  if (rest.trim()) {
    const whole = [rest, ...lines.slice(at + 1, at + 1 + MOST_FLOW_LINES)].join("\n").trimStart();
    const own = walkFlow(whole, []).words.filter((one) => !one.isValue && one.path.length === 1);
    return own.map((one) => one.word).filter((word) => /^[A-Za-z_]\w*$/.test(word));
  }
  const found: string[] = [];
  let inner = -1;
  for (let number = at + 1; number < lines.length; number++) {
    const line = lines[number]!;
    if (!line.trim()) continue;
    const indent = indentOf(line);
    if (indent <= column) break;
    if (inner < 0) inner = indent;
    const key = indent === inner ? /^\s*(["']?)([A-Za-z_]\w*)\1\s*:/.exec(line) : null;
    if (key) found.push(key[2]!);
  }
  return found;
}

export function templateNames(text: string): string[] {
  const found = new Set<string>();
  const lines = text.split("\n");
  let step = "";
  lines.forEach((line, at) => {
    const named = /(?:^|[{,]\s*)\s*-?\s*\{?\s*step:\s*(["']?)([\w-]+)\1/.exec(line);
    if (named && /^\s*-\s*\{?\s*step:/.test(line) && !/when:/.test(line)) found.add((step = named[2]!)); // its result
    for (const [, word, rest] of line.matchAll(/\b(workload|ctx|set_ctx|set_iter|args):(\s*\{.*|\s*$)/g)) {
      for (const key of keysBelow(lines, at, indentOf(line), rest!)) found.add(`${SCOPES[word!]}.${key}`);
    }
    const iterator = /\biterator:\s*([A-Za-z_]\w*)/.exec(line);
    if (iterator) found.add(`iter.${iterator[1]}`);
    for (const field of line.matchAll(/\bfield:\s*(["']?)([A-Za-z_]\w*)\1/g))
      if (step) found.add(`${step}.${field[2]}`);
  });
  return [...found].sort();
}

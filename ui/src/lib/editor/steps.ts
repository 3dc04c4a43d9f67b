// Which step a line belongs to, and where a step begins: read from the text as it is, broken or not.

const STEP = /^\s*-\s+(?:\{\s*)?step:\s*["']?([^\s"',}#]+)/;

export function stepAtLine(text: string, line: number): string {
  const lines = text.split("\n");
  let indent = Infinity;
  for (let at = Math.min(line, lines.length) - 1; at >= 0; at--) {
    const found = STEP.exec(lines[at]!);
    const own = lines[at]!.length - lines[at]!.trimStart().length;
    // An arc of the router looks like a step too, but stands deeper inside one.
    if (found && own < indent) {
      if (own <= 4 && isTop(lines, at, own)) return found[1]!;
      indent = own;
    }
  }
  return "";
}

function isTop(lines: string[], at: number, own: number): boolean {
  for (let above = at - 1; above >= 0; above--) {
    const text = lines[above]!;
    if (!text.trim() || text.trimStart().startsWith("#")) continue;
    const indent = text.length - text.trimStart().length;
    if (indent < own || (indent === own && !text.trimStart().startsWith("-")))
      return /^\s*(workflow|steps)\s*:/.test(text);
  }
  return false;
}

/** The line of a step, from 1; 0 when the text has none of that name. */
export function lineOfStep(text: string, name: string): number {
  const lines = text.split("\n");
  for (let at = 0; at < lines.length; at++) {
    const found = STEP.exec(lines[at]!);
    if (found?.[1] === name && isTop(lines, at, lines[at]!.length - lines[at]!.trimStart().length)) return at + 1;
  }
  return 0;
}

/** The names of the steps of a text, arcs being none. */
export function stepNames(text: string): string[] {
  const found: string[] = [];
  let own = -1; // column of the steps; -1 before the first
  let isInside = false;
  for (const line of text.split("\n")) {
    const begin = line.trimStart();
    if (!begin || begin.startsWith("#")) continue;
    const indent = line.length - begin.length;
    if (/^(workflow|steps)\s*:/.test(begin)) [own, isInside] = [-1, true];
    else if (isInside && begin.startsWith("-") && (own < 0 || indent === own)) {
      own = indent;
      const step = STEP.exec(line);
      if (step) found.push(step[1]!);
    } else if (isInside && indent < Math.max(own, 1) && !begin.startsWith("-")) isInside = false;
  }
  return found;
}

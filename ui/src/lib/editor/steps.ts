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

// Colours that programs print as escape sequences. Each piece stays text; a class says how it looks.

export interface Piece {
  text: string;
  style: string; // classes: "red bold"
}

const COLOURS = ["grey", "red", "green", "amber", "blue", "violet", "blue", "plain"];
// eslint-disable-next-line no-control-regex -- that is what an escape sequence begins with
const SEQUENCE = /\u001b\[([0-9;]*)([A-Za-z])/g;

/** Pieces of a text with the style of each; sequences that move a cursor are left out. */
export function pieces(text: string): Piece[] {
  const found: Piece[] = [];
  let [at, colour, isBold] = [0, "", false];
  const take = (end: number): void => {
    if (end > at) found.push({ text: text.slice(at, end), style: [colour, isBold ? "bold" : ""].join(" ").trim() });
  };
  for (const match of text.matchAll(SEQUENCE)) {
    take(match.index);
    at = match.index + match[0].length;
    if (match[2] !== "m") continue;
    for (const code of (match[1] || "0").split(";").map(Number)) {
      if (code === 0) [colour, isBold] = ["", false];
      else if (code === 1) isBold = true;
      else if (code === 22) isBold = false;
      else if (code === 39) colour = "";
      else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) colour = COLOURS[code % 10]!;
    }
  }
  take(text.length);
  return found;
}

/** The text alone. */
export const plain = (text: string): string => text.replace(SEQUENCE, "");

// A witness as pictures: which tokens each move has moved, and which of them it leads to. Tokens that the witness leaves
// where they are do not matter to it and are not marked.

import type { Move } from "../../lib/api/shapes";
import type { Journey, Marks, StepMark } from "../../lib/net/drawing";

export interface Frame {
  marks: Marks;
  journeys: Journey[];
  text: string;
}

const BLANK: StepMark = { tokens: 0, running: 0, queued: 0, queuedAt: null, done: 0, failed: 0 };

const counted = (names: readonly string[]): Map<string, number> => {
  const found = new Map<string, number>();
  for (const name of names) found.set(name, (found.get(name) ?? 0) + 1);
  return found;
};

/** Steps that have more tokens after the move than before it. */
function reached(before: readonly string[], after: readonly string[]): string[] {
  const had = counted(before);
  return [...counted(after)].filter(([name, number]) => number > (had.get(name) ?? 0)).map(([name]) => name);
}

const isRemark = (before: readonly string[], move: Move): boolean =>
  move.arcs.length === 0 && before.join("\n") === move.tokens.join("\n");

/** What the net shows after move `at`. */
export function frame(moves: readonly Move[], at: number): Frame {
  const move = moves[at];
  if (!move) return { marks: {}, journeys: [], text: "" };
  const before = (index: number): readonly string[] => moves[index - 1]?.tokens ?? [];
  const marks: Marks = {};
  for (const [index, one] of moves.slice(0, at + 1).entries()) {
    if (!isRemark(before(index), one)) marks[one.step] = { ...BLANK, done: 1, state: "completed" };
  }
  const gained = at === 0 ? [...new Set(move.tokens)] : reached(before(at), move.tokens);
  const told = isRemark(before(at), move) ? [move.step] : gained;
  const matters = new Set([...told, ...moves.slice(at + 1).map((one) => one.step)]);
  const isLast = at === moves.length - 1;
  for (const [step, tokens] of counted(move.tokens)) {
    if (!matters.has(step)) continue;
    const state = told.includes(step) ? (isLast ? "failed" : "waiting") : marks[step]?.state;
    marks[step] = { ...(marks[step] ?? BLANK), tokens, state };
  }
  const isBlamed = told.some((step) => marks[step]?.state === "failed");
  if (isLast && !isBlamed) marks[move.step] = { ...(marks[move.step] ?? BLANK), state: "failed" }; // no token is left to blame
  const journeys = move.arcs.length
    ? gained.map((target) => ({ id: `${at} ${target}`, source: move.step, target }))
    : [];
  return { marks, journeys, text: move.text };
}

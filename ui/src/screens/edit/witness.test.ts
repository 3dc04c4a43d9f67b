import { describe, expect, it } from "vitest";
import type { Move } from "../../lib/api/shapes";
import { frame } from "./witness";

const move = (step: string, tokens: string[], isRemark = false): Move => ({
  step,
  arcs: isRemark ? [] : [`${step}/arcs/0`],
  tokens,
  text: `${step} moves`,
});
const tokensOf = (moves: Move[], at: number): Record<string, number> =>
  Object.fromEntries(
    Object.entries(frame(moves, at).marks)
      .filter(([, mark]) => mark.tokens)
      .map(([step, mark]) => [step, mark.tokens]),
  );

// A fork into three, of which the witness follows two: the third token stays where it is.
const FORK = [
  move("start", ["left", "right", "aside"]),
  move("left", ["right", "aside", "other"]),
  move("right", ["aside", "other", "both"]),
  move("both", ["aside", "other", "both"], true),
];

describe("a witness", () => {
  it("marks what a move has just moved", () => {
    expect(tokensOf(FORK, 0)).toEqual({ left: 1, right: 1, aside: 1 });
    expect(frame(FORK, 0).marks.left!.state).toBe("waiting");
  });

  it("keeps a token that is moved later, and drops one that it never moves again", () => {
    expect(tokensOf(FORK, 1)).toEqual({ other: 1, right: 1 });
    expect(frame(FORK, 1).marks.right!.state).toBeUndefined();
    expect(tokensOf(FORK, 2)).toEqual({ both: 1 });
  });

  it("blames at its end the step it speaks of and no other", () => {
    const { marks } = frame(FORK, 3);
    expect(
      Object.entries(marks)
        .filter(([, mark]) => mark.state === "failed")
        .map(([step]) => step),
    ).toEqual(["both"]);
    expect(marks.start!.state).toBe("completed");
  });

  it("blames the step that ended where no token is left", () => {
    const moves = [move("start", ["end"]), { ...move("end", []), arcs: [] }];
    expect(frame(moves, 1).marks.end!.state).toBe("failed");
  });

  it("sends a token along each way that was taken, and none for a remark", () => {
    expect(frame(FORK, 0).journeys.map((one) => [one.source, one.target])).toEqual([
      ["start", "left"],
      ["start", "right"],
      ["start", "aside"],
    ]);
    expect(frame(FORK, 3).journeys).toEqual([]);
  });

  it("shows nothing before it is known", () => {
    expect(frame([], 0)).toEqual({ marks: {}, journeys: [], text: "" });
  });
});

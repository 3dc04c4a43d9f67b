import { describe, expect, it } from "vitest";
import { lineOfStep, stepAtLine, stepNames } from "./steps";

const TEXT = `workload: {}
workflow:
  - step: start
    next:
      arcs:
        - step: end
  - step: end
    tool: { kind: noop }
`;

describe("steps in the text", () => {
  it("are found by line, arcs being part of their step", () => {
    expect(stepAtLine(TEXT, 3)).toBe("start");
    expect(stepAtLine(TEXT, 6)).toBe("start");
    expect(stepAtLine(TEXT, 8)).toBe("end");
    expect(stepAtLine(TEXT, 1)).toBe("");
  });
  it("are found by name, arcs being no steps", () => {
    expect(lineOfStep(TEXT, "end")).toBe(7);
    expect(lineOfStep(TEXT, "nowhere")).toBe(0);
  });
  it("are listed whether the text is whole or not, and indented or not", () => {
    expect(stepNames(TEXT)).toEqual(["start", "end"]);
    const broken = '- step: a\n  args: { a: "\n  next: { arcs: [{ step: c }] }\n- { step: b }\ntrigger:\n- step: no\n';
    expect(stepNames(`workflow:\n${broken}`)).toEqual(["a", "b"]);
    expect(stepNames("tool:\n  - step: no")).toEqual([]);
  });
});

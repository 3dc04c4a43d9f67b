import { describe, expect, it } from "vitest";
import { atLevel, having, isCut, lettersAt, linesAt, linesHaving, toned } from "./levels";
import type { LiveRun } from "./output.svelte";

const line = (text: string, level?: string) => ({ ts: "", stream: "stdout", text, level });
const run = (...lines: ReturnType<typeof line>[]) => ({ task_run_id: "1", total: lines.length, lines }) as LiveRun;

describe("levels", () => {
  it.each([
    ["info", "b\nc\nd"],
    ["warning", "c\nd"],
    ["error", "d"],
  ])("%s leaves out what is below it, and lines without any", (level, left) =>
    expect(linesAt("a\nb\nc\nd\ne", "diwe-", level)).toBe(left),
  );
  it.each([
    ["a\nb … (cut, 90000 characters)", true],
    ["a\n... 12 more characters", true],
    ["a\n... 12 more characters\nb", false],
    [null, false],
  ])("are of a whole text, or of its beginning: %j", (text, short) => expect(isCut(text)).toBe(short));
  it("leave nothing of a text that names none", () => expect(linesAt("a\nb", "", "error")).toBe(null));
  it("hold for lines of tasks that run", () => {
    const runs = [run(line("a", "i"), line("b", "e")), run(line("c"))];
    expect(atLevel(runs, "warning").map((one) => one.lines.map((found) => found.text))).toEqual([["b"]]);
    expect(atLevel(runs, "warning")[0]!.total).toBe(1);
    expect(atLevel(runs, "")).toBe(runs);
  });
});

describe("tones of levels", () => {
  it("joins lines of one tone", () => {
    expect(toned("a\nb\nlate\nlost\ngone\nc", "iiwec-")).toEqual([
      { text: "a\nb", tone: "" },
      { text: "\nlate", tone: "amber" },
      { text: "\nlost\ngone", tone: "red" },
      { text: "\nc", tone: "" },
    ]);
    expect(lettersAt("iwe-", "warning")).toBe("we");
  });
});

describe("what is looked for", () => {
  it("leaves the lines that hold it, with their levels", () => {
    expect(linesHaving("one\nWARNING two\nthree", "iw-", "warning")).toEqual({ text: "WARNING two", levels: "w" });
    expect(linesHaving("one\ntwo", "ii", "load_orders")).toEqual({ text: "one\ntwo", levels: "ii" }); // its head holds it
  });

  it("leaves of a running task the lines that hold it, and all where its name does", () => {
    const run = { step: "load", task: "ask", lines: [line("one"), line("two")], total: 12 } as unknown as LiveRun;

    expect(having([run], "two")).toEqual([{ ...run, lines: [line("two")], total: 11 }]);
    expect(having([run], "load")).toEqual([run]);
    expect(having([run], "nothing")).toEqual([]);
  });
});

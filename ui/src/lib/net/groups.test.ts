import { describe, expect, it } from "vitest";
import type { Drawing, Marks, Way } from "./drawing";
import { boxName, closedGroups, folded, groupMark, groupsOf, saidOf } from "./groups";

const way = (source: string, target: string, more: Partial<Way> = {}): Way => ({
  source,
  target,
  label: "",
  guard: "",
  manner: "plain",
  ...more,
});
const NAMES = ["start", "load_a", "load_b", "load_c", "check_a", "check_b", "check_c", "end"];
const DRAWING: Drawing = {
  title: "groups",
  subtitle: "",
  entry: "start",
  boxes: NAMES.map((name) => ({ name, role: "step", marks: [], lines: [] })),
  ways: [
    way("start", "load_a", { label: "if a" }),
    way("start", "load_b", { label: "if b" }),
    way("load_a", "load_c"),
    way("load_b", "load_c"),
    way("load_c", "check_a", { label: "else" }),
    way("check_a", "end", { manner: "failure" }),
    way("check_b", "end"),
    way("check_c", "end", { manner: "failure" }),
  ],
};

describe("groups of steps", () => {
  it("follow from the beginnings of their names", () => {
    expect([...groupsOf(NAMES)]).toEqual([
      ["load", ["load_a", "load_b", "load_c"]],
      ["check", ["check_a", "check_b", "check_c"]],
    ]);
    expect([...groupsOf(["a.x.1", "a.x.2", "a.x.3", "a.y.1", "a.y.2", "a.y.3"]).keys()]).toEqual(["a.x", "a.y"]);
  });

  it("are none where names tell nothing", () => {
    expect(groupsOf(["step_1", "step_2", "step_3", "step_4"]).size).toBe(0);
    expect(groupsOf(["start", "load", "end"]).size).toBe(0);
    expect(groupsOf(["load_a", "load_b", "start", "end"]).size).toBe(0); // two are no group
  });

  it("are stretches of numbers in a large net whose steps are but numbered", () => {
    const names = ["start", ...Array.from({ length: 64 }, (_, n) => `step_${64 - n}`), "end"];
    const found = groupsOf(names);
    expect([...found.keys()]).toEqual(["step_1–20", "step_21–40", "step_41–60", "step_61–64"]);
    expect(found.get("step_61–64")).toEqual(["step_61", "step_62", "step_63", "step_64"]);
    expect(groupsOf(Array.from({ length: 1000 }, (_, n) => `s${n}`)).size).toBe(25);
  });

  it("are folded into one box each, with the arcs of their steps", () => {
    const { drawing, boxOf } = folded(DRAWING, groupsOf(NAMES), new Set(["load", "check"]));
    expect(drawing.boxes.map((box) => box.name)).toEqual(["start", "load*", "check*", "end"]);
    expect(drawing.boxes[1]!.members).toEqual(["load_a", "load_b", "load_c"]);
    expect(drawing.ways).toEqual([
      way("start", "load*"), // two conditions are none
      way("load*", "check*", { label: "else" }),
      way("check*", "end"), // one of the three is no failure
    ]);
    expect([boxOf("load_c"), boxOf("end")]).toEqual([boxName("load"), "end"]);
  });

  it("leave a drawing as it is where none is folded", () => {
    expect(folded(DRAWING, groupsOf(NAMES), new Set()).drawing).toBe(DRAWING);
  });

  it("have the gravest state of their steps, and count each", () => {
    const mark = { tokens: 0, running: 0, queued: 0, queuedAt: null, done: 1, failed: 0 };
    const marks: Marks = {
      load_a: { ...mark, state: "completed" },
      load_b: { ...mark, state: "running" },
      check_a: { ...mark, state: "completed", loop: { done: 3, failed: 1, total: 4, unrun: 0, passed_over: 0 } },
    };
    expect(groupMark(["load_a", "load_b", "load_c"], marks)).toEqual({
      state: "running",
      counts: [
        { state: "running", number: 1 },
        { state: "completed", number: 1 },
      ],
    });
    expect(groupMark(["check_a"], marks).state).toBe("failed");
    expect(groupMark(["end"], marks)).toEqual({ state: undefined, counts: [] });
  });

  it("are folded as the address says, and in a large net from the start", () => {
    const groups = groupsOf(NAMES);
    expect([...closedGroups(null, groups, 8)]).toEqual([]);
    expect([...closedGroups(null, groups, 1000)]).toEqual(["load", "check"]);
    expect([...closedGroups("check,gone", groups, 8)]).toEqual(["check"]);
    expect([...closedGroups("none", groups, 1000)]).toEqual([]);
    expect(saidOf(new Set(["load"]), groups, 8)).toBe("load");
    expect(saidOf(new Set(), groups, 1000)).toBe("none");
    expect(saidOf(new Set(["check", "load"]), groups, 1000)).toBeNull();
  });
});

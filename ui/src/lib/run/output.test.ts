import { describe, expect, it, vi } from "vitest";

vi.mock("../api/live.svelte", () => ({ subscribe: () => () => undefined }));
vi.mock("../api/client", () => ({ get: () => Promise.reject(new Error("no server answers")) }));
const { joined, MOST_LINES } = await import("./output.svelte");

const run = (id: string, texts: string[], total = texts.length) => ({
  task_run_id: id,
  step: "load",
  task: "load",
  path: [],
  attempt: 1,
  lines: texts.map((text) => ({ ts: "2026-01-01T00:00:00Z", stream: "stdout", text, level: "-", lease_epoch: 1 })),
  total,
});
const page = (tasks: ReturnType<typeof run>[], is_whole = false, cursor = "a.1") => ({ tasks, cursor, is_whole });
const texts = (found: ReturnType<typeof joined>) => found.map((one) => one.lines.map((line) => line.text));

describe("lines of tasks that run", () => {
  it("are put behind those that are here, task run by task run", () => {
    const known = joined([], page([run("1", ["a"])]));
    expect(texts(joined(known, page([run("1", ["b"]), run("2", ["c"])])))).toEqual([["a", "b"], ["c"]]);
  });
  it("are replaced where the server has begun anew", () => {
    const known = joined([], page([run("1", ["a"])]));
    expect(texts(joined(known, page([run("1", ["a", "b"])], true)))).toEqual([["a", "b"]]);
  });
  it("stay when the server tells of the task run no more", () => {
    const known = joined(joined([], page([run("1", ["a"])])), page([]));
    expect(known.map((one) => [one.isOver, one.lines.length])).toEqual([[true, 1]]);
  });
  it("are not over because another process of the server knows nothing of them", () => {
    const known = joined(joined([], page([run("1", ["a"])])), page([], true, "b.7"));
    expect(known.map((one) => [one.isOver, one.era])).toEqual([[false, "a"]]);
  });
  it("are the newest only", () => {
    const known = joined([], page([run("1", Array<string>(MOST_LINES).fill("a"))]));
    const more = joined(known, page([run("1", ["b"], MOST_LINES + 1)]))[0]!;
    expect([more.lines.length, more.lines.at(-1)?.text, more.total]).toEqual([MOST_LINES, "b", MOST_LINES + 1]);
  });
});

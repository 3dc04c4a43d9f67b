import { describe, expect, it } from "vitest";
import type { LoopProjection, LoopsView } from "../api/shapes";
import { equal, gridsOf, pixel, pixels, raster, type Grid } from "./loops";

const loop = (more: Partial<LoopProjection> = {}): LoopProjection => ({
  step: "each",
  step_run_id: "r",
  path: [],
  total: 5,
  done: 1,
  failed: 1,
  passed_over: 0,
  kept: 0,
  is_over: false,
  blocks: { "0": "213", "1": "00" },
  failures: [{ index: 2, kind: "tool", message: "no luck" }],
  ...more,
});
const answer = (loops: LoopProjection[], since = 0): LoopsView => ({
  execution_id: "x",
  at: since + 1,
  since,
  block: 3,
  loops,
  loops_total: loops.length,
});

describe("loops", () => {
  it("have a cell for each iteration", () => {
    const [grid] = gridsOf(answer([loop()]), []);
    expect([...grid!.cells]).toEqual([2, 1, 3, 0, 0]);
    expect(grid!.failures).toEqual([{ index: 2, path: "2", why: "tool: no luck" }]);
  });

  it("go on with the blocks that changed, and make room for new iterations", () => {
    const before = gridsOf(answer([loop()]), []);
    const more = { total: 7, failed: 2, blocks: { "1": "103", "2": "0" } };
    const later = [5, 1].map((index) => ({ index, kind: "tool", message: "" })); // in the order in which they failed
    const after = gridsOf(answer([loop({ ...more, failures: later })], 4), before);
    expect([...after[0]!.cells]).toEqual([2, 1, 3, 1, 0, 3, 0]);
    expect(after[0]!.failures.map((one) => one.index)).toEqual([1, 2, 5]);
    expect([...before[0]!.cells]).toEqual([2, 1, 3, 0, 0]);
  });

  it("are returned whole after going back", () => {
    const before = gridsOf(answer([loop()]), []);
    const [grid] = gridsOf(answer([loop({ blocks: { "0": "100", "1": "00" }, failures: [] })]), before);
    expect([[...grid!.cells], grid!.failures]).toEqual([[1, 0, 0, 0, 0], []]);
  });

  it("inside an iteration name it", () => {
    const [grid] = gridsOf(answer([loop({ path: [3, 1] })]), []);
    expect([grid!.path, grid!.failures[0]!.path]).toEqual(["3.1", "3.1.2"]);
  });
});

describe("pixels", () => {
  it("are drawn for every cell", () => {
    const total = 100_000;
    const grid = { total, cells: new Uint8Array(total).fill(2) } as Partial<Grid> as Grid;
    const shape = raster(total, 1000);
    const drawn = pixels(grid, shape, [1, 2, 3, 4]);
    expect(drawn.length).toBe(shape.columns * shape.size * shape.rows * shape.size);
    expect([drawn[0], drawn[shape.size - 1]]).toEqual([3, 0]);
  });

  it("have the colour of the page", () => expect(pixel("rgb(16, 32, 48)")).toBe(0xff302010));
});

describe("failures", () => {
  it("that are equal are counted, the commonest first", () => {
    const whys = ["http: 503", "http: 500", "http: 500"];
    expect(equal(whys.map((why, index) => ({ index, path: String(index), why })))).toEqual([
      ["http: 500", 2],
      ["http: 503", 1],
    ]);
  });
});

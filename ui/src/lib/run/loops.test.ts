import { describe, expect, it } from "vitest";
import type { LoopProjection, LoopsView } from "../api/shapes";
import { equal, gridsOf, pixel, Picture, raster } from "./loops";

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

describe("cells", () => {
  it("are drawn for every cell", () => {
    const total = 100_000;
    const shape = raster(total, 1000);
    const picture = new Picture(total, shape, [1, 2, 3, 4]);
    expect(picture.draw(new Uint8Array(total).fill(2)).cells).toBe(total);
    expect(picture.pixels.length).toBe(shape.columns * shape.size * shape.rows * shape.size);
    expect([picture.pixels[0], picture.pixels[shape.size - 1]]).toEqual([3, 0]);
  });

  it("are drawn anew only for the cells that changed", () => {
    const total = 20_000;
    const shape = raster(total, 1000);
    const [picture, whole] = [new Picture(total, shape, [1, 2, 3]), new Picture(total, shape, [1, 2, 3])];
    const cells = new Uint8Array(total);
    picture.draw(cells);
    cells.fill(1, 500, 540);
    const { columns } = shape;
    const rows = { first: Math.floor(500 / columns), last: Math.floor(539 / columns) };
    expect(picture.draw(cells)).toEqual({ cells: 40, ...rows });
    expect(picture.draw(cells).cells).toBe(0);
    whole.draw(cells);
    expect(picture.pixels.every((one, at) => one === whole.pixels[at])).toBe(true);
  });

  it("are drawn whole for another size, room or colour", () => {
    const shape = raster(100, 500);
    const picture = new Picture(100, shape, [1, 2]);
    expect(picture.fits(100, raster(100, 500), [1, 2])).toBe(true);
    expect(picture.fits(101, shape, [1, 2])).toBe(false);
    expect(picture.fits(100, raster(100, 400), [1, 2])).toBe(false);
    expect(picture.fits(100, shape, [1, 3])).toBe(false);
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

import { describe, expect, it } from "vitest";
import type { Slim } from "./events";
import { LoopHistory, pixel, pixels, raster } from "./loops";

const event = (type: string, index = -1, total = -1): Slim => ({
  seq: 0,
  type,
  at: 0,
  status: "",
  step: "each",
  run: "r",
  target: "",
  index,
  path: index < 0 ? "" : String(index),
  total,
  key: "",
  gist: "",
});

describe("iterations", () => {
  it("are counted once each, forwards and back", () => {
    const log = [
      event("loop.started", -1, 3),
      event("loop.iteration.started", 0),
      event("loop.iteration.done", 0),
      event("loop.iteration.failed", 2),
    ];
    const history = new LoopHistory(log);
    expect(history.at(4)[0]).toMatchObject({ total: 3, done: 1, failed: 1 });
    expect([...history.at(4)[0]!.cells]).toEqual([2, 0, 3]);
    expect([...history.at(2)[0]!.cells]).toEqual([1, 0, 0]);
  });

  it("of nested loops are cells of the loop they are in", () => {
    const of = (type: string, path: string, total = -1): Slim => ({
      ...event(type, type === "loop.started" ? -1 : Number(path.split(".").at(-1)), total),
      path,
    });
    const history = new LoopHistory([
      of("loop.started", "", 2),
      of("loop.iteration.started", "1"),
      of("loop.started", "1", 3),
      of("loop.iteration.failed", "1.0"),
      of("loop.iteration.done", "1.2"),
      of("loop.iteration.done", "1"),
    ]);
    const [around, inside] = history.at(6);
    expect([around!.path, [...around!.cells], around!.failed]).toEqual(["", [0, 2], 0]);
    expect([inside!.path, [...inside!.cells], [...inside!.failures.keys()]]).toEqual(["1", [3, 0, 2], [0]]);
  });

  it("of an unknown number make room", () => {
    const history = new LoopHistory([event("loop.started", -1, 0), event("loop.iteration.done", 5)]);
    expect(history.at(2)[0]).toMatchObject({ total: 6, done: 1 });
  });

  it("a hundred thousand are taken and drawn with a few looks at each event", () => {
    const log = [event("loop.started", -1, 100_000)];
    for (let n = 0; n < 100_000; n++) log.push(event("loop.iteration.started", n), event("loop.iteration.done", n));
    let looks = 0;
    const counted = new Proxy(log, { get: (all, key) => (looks++, Reflect.get(all, key)) });
    const [grid] = new LoopHistory(counted).at(log.length);
    const shape = raster(grid!.total, 1000);
    const drawn = pixels(grid!, shape, [1, 2, 3, 4]);
    expect(looks).toBeLessThan(4 * log.length);
    expect(grid!.done).toBe(100_000);
    expect(drawn.length).toBe(shape.columns * shape.size * shape.rows * shape.size);
  });
});

describe("pixels", () => {
  it("have the colour of the page", () => expect(pixel("rgb(16, 32, 48)")).toBe(0xff302010));
});

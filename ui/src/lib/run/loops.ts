// Iterations of loops as pictures: one byte each as the server tells them, 100,000 of them are one picture.

import type { LoopProjection, LoopsView } from "../api/shapes";

export interface Failure {
  index: number;
  path: string;
  why: string;
}

export interface Grid {
  step: string;
  run: string;
  path: string; // of the iteration around it; empty for the outermost loop
  total: number;
  cells: Uint8Array; // by iteration: 0 not started, 1 running, 2 done, 3 failed, 4 done by the run before
  done: number;
  failed: number;
  passedOver: number; // of those that are done: a task of theirs failed
  kept: number; // of those that are done: the run before had done them
  isOver: boolean; // what was running was stopped
  failures: readonly Failure[];
}

/** The iteration around one: "3" around "3.5", nothing around "3". */
export const outer = (path: string): string => path.slice(0, Math.max(0, path.lastIndexOf(".")));

export const keyOf = ({ run, path }: Pick<Grid, "run" | "path">): string => `${run}/${path}`;

const ZERO = "0".charCodeAt(0);

function cellsOf(loop: LoopProjection, block: number, before: Uint8Array | undefined): Uint8Array {
  const cells = new Uint8Array(Math.max(loop.total, 1));
  if (before) cells.set(before.subarray(0, cells.length));
  for (const [number, text] of Object.entries(loop.blocks)) {
    const start = Number(number) * block;
    for (let n = 0; n < text.length; n++) cells[start + n] = text.charCodeAt(n) - ZERO;
  }
  return cells;
}

function gridOf(loop: LoopProjection, block: number, before: Grid | undefined): Grid {
  const { step, step_run_id: run, total, done, failed, kept, is_over: isOver, passed_over: passedOver } = loop;
  const path = loop.path.join(".");
  const fresh = loop.failures.map(({ index, kind, message }) => ({
    index,
    path: path ? `${path}.${index}` : String(index),
    why: `${kind}: ${message}`,
  }));
  // The server tells them in the order in which they failed; a reader looks for an item by its number.
  const known = before?.failures ?? [];
  const failures = fresh.length ? [...known, ...fresh].sort((a, b) => a.index - b.index) : known;
  const cells = cellsOf(loop, block, before?.cells);
  return { step, run, path, total, done, failed, passedOver, kept, isOver, failures, cells };
}

/** How often each reason is there, the commonest first. */
export function equal(failures: readonly Failure[]): [why: string, many: number][] {
  const found = new Map<string, number>();
  for (const { why } of failures) found.set(why, (found.get(why) ?? 0) + 1);
  return [...found].sort(([, a], [, b]) => b - a);
}

/** The loops of an answer; one that tells changes alone goes on from the loops that are shown. */
export function gridsOf(answer: LoopsView, shown: readonly Grid[]): Grid[] {
  const before = new Map(answer.since ? shown.map((grid) => [keyOf(grid), grid]) : []);
  return answer.loops.map((loop) =>
    gridOf(loop, answer.block, before.get(keyOf({ run: loop.step_run_id, path: loop.path.join(".") }))),
  );
}

export interface Raster {
  size: number; // of a cell with its gap, in pixels
  columns: number;
  rows: number;
}

export function raster(total: number, width: number): Raster {
  const size = total > 20_000 ? 4 : total > 2000 ? 6 : 11;
  const columns = Math.max(1, Math.floor(width / size));
  return { size, columns, rows: Math.max(1, Math.ceil(total / columns)) };
}

const UNDRAWN = 255;

/** The picture of a loop as pixels. A long loop that runs changes a few of its cells at a time: only those are drawn. */
export class Picture {
  readonly pixels: Uint32Array;
  private readonly drawn: Uint8Array;

  /** `colours` by state, as 0xAABBGGRR. */
  constructor(
    readonly total: number,
    readonly shape: Raster,
    readonly colours: readonly number[],
  ) {
    this.pixels = new Uint32Array(shape.columns * shape.size * shape.rows * shape.size);
    this.drawn = new Uint8Array(total).fill(UNDRAWN);
  }

  /** Whether a loop of this size in this room and these colours can go on with it. */
  fits(total: number, shape: Raster, colours: readonly number[]): boolean {
    return (
      total === this.total &&
      shape.columns === this.shape.columns &&
      shape.size === this.shape.size &&
      colours.every((one, state) => one === this.colours[state])
    );
  }

  /** Draw the cells that changed; how many these are, and in which rows. */
  draw(cells: Uint8Array): { cells: number; first: number; last: number } {
    const { size, columns } = this.shape;
    const width = columns * size;
    const found = { cells: 0, first: this.shape.rows, last: -1 };
    for (let n = 0; n < this.total; n++) {
      const state = cells[n]!;
      if (this.drawn[n] === state) continue;
      this.drawn[n] = state;
      const row = Math.floor(n / columns);
      const start = row * size * width + (n % columns) * size;
      for (let y = 0; y < size - 1; y++)
        this.pixels.fill(this.colours[state]!, start + y * width, start + y * width + size - 1);
      found.cells += 1;
      found.first = Math.min(found.first, row);
      found.last = row;
    }
    return found;
  }
}

/** A colour as browsers compute it, `rgb(r, g, b)`, as a pixel. */
export function pixel(colour: string): number {
  const [red = 0, green = 0, blue = 0] = (colour.match(/\d+/g) ?? []).map(Number);
  return (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0;
}

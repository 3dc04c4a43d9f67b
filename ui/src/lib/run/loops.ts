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

/** The picture as pixels, written in one pass; `colours` by state, as 0xAABBGGRR. */
export function pixels(grid: Grid, { size, columns, rows }: Raster, colours: readonly number[]): Uint32Array {
  const width = columns * size;
  const found = new Uint32Array(width * rows * size);
  const cell = size - 1;
  for (let n = 0; n < grid.total; n++) {
    const colour = colours[grid.cells[n]!]!;
    const start = Math.floor(n / columns) * size * width + (n % columns) * size;
    for (let y = 0; y < cell; y++) found.fill(colour, start + y * width, start + y * width + cell);
  }
  return found;
}

/** A colour as browsers compute it, `rgb(r, g, b)`, as a pixel. */
export function pixel(colour: string): number {
  const [red = 0, green = 0, blue = 0] = (colour.match(/\d+/g) ?? []).map(Number);
  return (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0;
}

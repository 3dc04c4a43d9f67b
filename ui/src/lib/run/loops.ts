// Iterations of loops, one byte each, counted as events come: 100,000 of them are one picture.

import type { Slim } from "./events";

export const [WAITS, RUNS, DONE, FAILED] = [0, 1, 2, 3];

export interface Grid {
  step: string;
  run: string;
  path: string; // of the iteration around it; empty for the outermost loop
  total: number;
  cells: Uint8Array;
  done: number;
  failed: number;
  failures: Map<number, Slim>; // by index, the event that told
}

/** The iteration around one: "3" around "3.5", nothing around "3". */
export const outer = (path: string): string => path.slice(0, Math.max(0, path.lastIndexOf(".")));

const STATE: Record<string, number> = {
  "loop.iteration.started": RUNS!,
  "loop.iteration.done": DONE!,
  "loop.iteration.failed": FAILED!,
};

export class LoopHistory {
  readonly grids = new Map<string, Grid>();
  private taken = 0;

  constructor(private readonly events: readonly Slim[]) {}

  /** After the first `length` events. Going back means counting again, which a whole log takes some milliseconds. */
  at(length: number): Grid[] {
    if (length < this.taken) {
      this.grids.clear();
      this.taken = 0;
    }
    for (; this.taken < length; this.taken++) this.take(this.events[this.taken]!);
    return [...this.grids.values()];
  }

  private take(event: Slim): void {
    if (event.type === "loop.started") {
      const key = `${event.run}/${event.path}`;
      if (event.total >= 0 && !this.grids.has(key)) this.grids.set(key, begun(event));
      return;
    }
    const state = STATE[event.type];
    if (state === undefined || event.index < 0) return;
    const grid = this.grids.get(`${event.run}/${outer(event.path)}`);
    if (!grid) return;
    mark(grid, event.index, state);
    if (state === FAILED) grid.failures.set(event.index, event);
  }
}

function begun(event: Slim): Grid {
  const cells = new Uint8Array(Math.max(event.total, 1));
  const { step, run, path, total } = event;
  return { step, run, path, total, cells, done: 0, failed: 0, failures: new Map() };
}

function mark(grid: Grid, index: number, state: number): void {
  if (index >= grid.cells.length) {
    const grown = new Uint8Array(Math.max(index + 1, grid.cells.length * 2)); // a loop whose end is not known beforehand
    grown.set(grid.cells);
    grid.cells = grown;
  }
  grid.total = Math.max(grid.total, index + 1);
  grid.cells[index] = state;
  if (state === DONE) grid.done += 1;
  else if (state === FAILED) grid.failed += 1;
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

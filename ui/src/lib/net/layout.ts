// Where each box stands: left to right, or downwards where it is narrow; ways as straight as they can be.

import { graphlib, layout } from "@dagrejs/dagre";
import type { Box, Drawing, Way } from "./drawing";

export interface Placed {
  x: number;
  y: number;
  width: number;
  height: number;
}

const LINE = 18;
const WIDEST = 260;
const SHOWN = 5; // tasks of a step; the rest is a number

export function sizeOf(box: Box): { width: number; height: number } {
  if (box.role === "group") return { width: Math.min(WIDEST, Math.max(150, box.name.length * 7.2 + 60)), height: 62 };
  const texts = [
    ...box.marks.map((mark) => `${mark.sign} ${mark.text}`),
    ...box.lines.slice(0, SHOWN).map((line) => `${line.name} ${line.kind}`),
  ];
  const longest = Math.max(0, ...texts.map((text) => text.length));
  const head = box.name.length * 8.2 + 76; // in bold, between its place and a count
  const rows = Math.min(box.lines.length, SHOWN) + (box.lines.length > SHOWN ? 1 : 0) + box.marks.length;
  return {
    width: Math.min(WIDEST, Math.max(120, head, longest * 7.2 + 40)),
    height: 38 + rows * LINE + (rows ? 6 : 0),
  };
}

export interface Point {
  x: number;
  y: number;
}

/** A net laid out. `bends` are the points that a way goes through, by its place in the drawing; none of one that leads back. */
export interface Arranged {
  boxes: Map<string, Placed>;
  bends: Map<number, Point[]>;
}

const LABEL_HEIGHT = 18;
const LABEL_WIDEST = 180;
const labelWidth = (text: string): number => (text ? Math.min(LABEL_WIDEST, text.length * 6.4 + 12) : 0);

export function placed(drawing: Drawing, isDown = false): Map<string, Placed> {
  return arranged(drawing, isDown).boxes;
}

/** Steps that cannot be reached are laid out too; a self-loop changes no rank. Each condition has room of its own. */
export function arranged(drawing: Drawing, isDown = false): Arranged {
  const graph = new graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: isDown ? "TB" : "LR", nodesep: 28, ranksep: isDown ? 52 : 84, marginx: 16, marginy: 16 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const box of drawing.boxes) graph.setNode(box.name, { ...sizeOf(box) });
  drawing.ways.forEach((way, at) => {
    if (way.source !== way.target)
      graph.setEdge(
        way.source,
        way.target,
        {
          weight: way.manner === "failure" ? 1 : 3,
          width: labelWidth(way.label),
          height: way.label ? LABEL_HEIGHT : 0,
          labelpos: "c",
        },
        String(at),
      );
  });
  layout(graph);
  const boxes = new Map(
    drawing.boxes.map((box) => {
      const node = graph.node(box.name);
      return [
        box.name,
        { x: node.x - node.width / 2, y: node.y - node.height / 2, width: node.width, height: node.height },
      ] as [string, Placed];
    }),
  );
  return { boxes, bends: new Map(drawing.ways.flatMap((way, at) => bendsOf(way, at))) };

  function bendsOf(way: Way, at: number): [number, Point[]][] {
    if (way.source === way.target) return [];
    const [from, to] = [boxes.get(way.source)!, boxes.get(way.target)!];
    const isBack = isDown ? to.y < from.y + from.height : to.x < from.x + from.width;
    if (isBack) return [];
    const { points } = graph.edge({ v: way.source, w: way.target, name: String(at) }) as { points: Point[] };
    return [[at, points.slice(1, -1)]];
  }
}

/** How far conditions stick out beyond the steps, to either side. */
export function overhang(drawing: Drawing, { boxes, bends }: Arranged): { left: number; right: number } {
  const all = [...boxes.values()];
  const from = Math.min(...all.map((one) => one.x));
  const to = Math.max(...all.map((one) => one.x + one.width));
  let [left, right] = [0, 0];
  for (const [at, points] of bends) {
    const half = labelWidth(drawing.ways[at]!.label) / 2;
    if (!half || !points.length) continue;
    const { x } = points[Math.floor(points.length / 2)]!;
    [left, right] = [Math.max(left, from - (x - half)), Math.max(right, x + half - to)];
  }
  return { left, right };
}

/** A smooth line from one place to another through bends: it leaves and arrives along the direction of the net. */
export function throughBends(from: Point, bends: readonly Point[], to: Point, isDown: boolean): string {
  let [at, path] = [from, `M ${from.x} ${from.y}`];
  for (const next of [...bends, to]) {
    const [x, y] = [(at.x + next.x) / 2, (at.y + next.y) / 2];
    const turn = isDown ? `${at.x} ${y}, ${next.x} ${y}` : `${x} ${at.y}, ${x} ${next.y}`;
    path += ` C ${turn}, ${next.x} ${next.y}`;
    at = next;
  }
  return path;
}

export const NARROW = 560; // pixels; a wider place shows a net from left to right, as it is read
const USUAL_HEIGHT = 480; // of a place for nets; the real one changes with what else is shown, and nets should not turn
const READABLE = 0.75; // of its own size

/** How much of its own size a net has in a place of `width`. */
function share(where: Map<string, Placed>, width: number): number {
  const all = [...where.values()];
  return Math.min(
    width / Math.max(...all.map((one) => one.x + one.width)),
    USUAL_HEIGHT / Math.max(...all.map((one) => one.y + one.height)),
  );
}

/** Whether it is read more easily from top to bottom: where it is narrow, and the net would be small otherwise. */
export function goesDown(drawing: Drawing, width: number): boolean {
  if (width === 0 || width >= NARROW || drawing.boxes.length < 2) return false;
  const right = share(placed(drawing), width);
  return right < READABLE && share(placed(drawing, true), width) > right;
}

export function bounds(boxes: readonly Placed[]): Placed {
  const x = Math.min(...boxes.map((one) => one.x));
  const y = Math.min(...boxes.map((one) => one.y));
  const right = Math.max(...boxes.map((one) => one.x + one.width));
  return { x, y, width: right - x, height: Math.max(...boxes.map((one) => one.y + one.height)) - y };
}

/** Where a net is looked at from: the library's way to say which part of it is in sight. */
export interface View {
  x: number;
  y: number;
  zoom: number;
}

/** How boxes are put into their place: no smaller and no larger than that, with so many pixels kept free at the sides. */
export interface Fit {
  boxes?: readonly string[]; // which; all without it
  minZoom?: number;
  left?: number;
  right?: number;
}

const FREE = 0.05; // of the place, at each of its sides

/** The view in which these boxes are in the middle of a place, and whole if they are not too many for that. */
export function viewOf(boxes: readonly Placed[], place: { width: number; height: number }, fit: Fit = {}): View {
  const { x, y, width, height } = bounds(boxes);
  const [left, right] = [fit.left ?? place.width * FREE, fit.right ?? place.width * FREE];
  const whole = Math.min((place.width - left - right) / width, (place.height * (1 - 2 * FREE)) / height);
  const zoom = Math.min(1, Math.max(fit.minZoom ?? SMALLEST, whole));
  return {
    x: left + (place.width - left - right) / 2 - (x + width / 2) * zoom,
    y: place.height / 2 - (y + height / 2) * zoom,
    zoom,
  };
}

/** Whether two views are about as far apart as one place is large, or less. */
export function isNear(one: View, other: View, place: { width: number; height: number }): boolean {
  const middle = ({ x, y, zoom }: View): Point => ({
    x: (place.width / 2 - x) / zoom,
    y: (place.height / 2 - y) / zoom,
  });
  const [a, b] = [middle(one), middle(other)];
  const zoom = Math.min(one.zoom, other.zoom);
  return Math.abs(a.x - b.x) * zoom <= place.width && Math.abs(a.y - b.y) * zoom <= place.height;
}

export const SMALLEST = 0.1; // of its own size
export const READABLE_FROM = 0.6; // of its own size: names can be read there, and few boxes are drawn at once
const LEGIBLE_FROM = 0.4; // of its own size: below, nobody makes out a name
const NEAR = 24; // boxes

/** The boxes around the start, where all of them would be too small to be read; else nothing. */
export function nearest({ drawing, boxes }: Laid, width: number): string[] | null {
  if (share(boxes, Math.max(width, 1)) >= LEGIBLE_FROM) return null;
  const start = boxes.get(drawing.entry) ?? boxes.values().next().value!;
  const far = (one: Placed): number => Math.hypot(one.x - start.x, one.y - start.y);
  return [...boxes]
    .sort(([, one], [, other]) => far(one) - far(other))
    .map(([name]) => name)
    .slice(0, NEAR);
}

/** A drawing with where all of it stands in a place of `width`. */
export interface Laid extends Arranged {
  drawing: Drawing;
  isDown: boolean;
}

export function laidOut(drawing: Drawing, width: number): Laid {
  const isDown = goesDown(drawing, width);
  return { drawing, isDown, ...arranged(drawing, isDown) };
}

export { SHOWN };

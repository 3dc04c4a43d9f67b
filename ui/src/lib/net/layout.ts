// Where each box stands: left to right, or downwards where it is narrow; ways as straight as they can be.

import { graphlib, layout } from "@dagrejs/dagre";
import type { Box, Drawing } from "./drawing";

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
  const texts = [
    box.name,
    ...box.marks.map((mark) => `${mark.sign} ${mark.text}`),
    ...box.lines.slice(0, SHOWN).map((line) => `${line.name} ${line.kind}`),
  ];
  const longest = Math.max(...texts.map((text) => text.length));
  const rows = Math.min(box.lines.length, SHOWN) + (box.lines.length > SHOWN ? 1 : 0) + box.marks.length;
  return { width: Math.min(WIDEST, Math.max(120, longest * 7.2 + 40)), height: 38 + rows * LINE + (rows ? 6 : 0) };
}

/** Steps that cannot be reached are laid out too; a self-loop changes no rank. */
export function placed(drawing: Drawing, isDown = false): Map<string, Placed> {
  const graph = new graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: isDown ? "TB" : "LR", nodesep: 28, ranksep: isDown ? 52 : 84, marginx: 16, marginy: 16 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const box of drawing.boxes) graph.setNode(box.name, { ...sizeOf(box) });
  drawing.ways.forEach((way, at) => {
    if (way.source !== way.target)
      graph.setEdge(way.source, way.target, { weight: way.manner === "failure" ? 1 : 3 }, String(at));
  });
  layout(graph);
  return new Map(
    drawing.boxes.map((box) => {
      const node = graph.node(box.name);
      return [
        box.name,
        { x: node.x - node.width / 2, y: node.y - node.height / 2, width: node.width, height: node.height },
      ];
    }),
  );
}

const NARROW = 560; // pixels; a wider place shows a net from left to right, as it is read
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

export { SHOWN };

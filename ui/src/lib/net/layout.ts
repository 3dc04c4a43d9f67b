// Where each box stands: left to right, ways as straight as they can be.

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
  const texts = [box.name, ...box.marks.map((mark) => `${mark.sign} ${mark.text}`), ...box.lines.slice(0, SHOWN).map((line) => `${line.name} ${line.kind}`)];
  const longest = Math.max(...texts.map((text) => text.length));
  const rows = Math.min(box.lines.length, SHOWN) + (box.lines.length > SHOWN ? 1 : 0) + box.marks.length;
  return { width: Math.min(WIDEST, Math.max(120, longest * 7.2 + 40)), height: 38 + rows * LINE + (rows ? 6 : 0) };
}

/** Steps that cannot be reached are laid out too; a self-loop changes no rank. */
export function placed(drawing: Drawing): Map<string, Placed> {
  const graph = new graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: "LR", nodesep: 28, ranksep: 84, marginx: 16, marginy: 16 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const box of drawing.boxes) graph.setNode(box.name, { ...sizeOf(box) });
  drawing.ways.forEach((way, at) => {
    if (way.source !== way.target) graph.setEdge(way.source, way.target, { weight: way.manner === "failure" ? 1 : 3 }, String(at));
  });
  layout(graph);
  return new Map(
    drawing.boxes.map((box) => {
      const node = graph.node(box.name);
      return [box.name, { x: node.x - node.width / 2, y: node.y - node.height / 2, width: node.width, height: node.height }];
    }),
  );
}

export { SHOWN };

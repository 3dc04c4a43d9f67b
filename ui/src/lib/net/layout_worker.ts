// Lays out large nets beside the page: a net of 1,000 steps takes a second, in which nothing could be pressed.

import type { Drawing } from "./drawing";
import { laidOut } from "./layout";

addEventListener("message", ({ data }: MessageEvent<{ drawing: Drawing; width: number }>) => {
  const { isDown, boxes, bends } = laidOut(data.drawing, data.width);
  postMessage({ isDown, boxes, bends }); // the page has the drawing
});

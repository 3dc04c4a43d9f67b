// Bars of a Gantt chart: moments to pixels, and which rows there are.

export interface Part {
  /** queued · running · waiting · backoff: each has its own shade. */
  kind: "queued" | "running" | "waiting" | "backoff";
  from: number;
  to: number | null;
  state: string;
  title: string;
}

export interface Bar {
  id: string;
  label: string;
  step: string;
  depth: number;
  sign?: string; // of what runs beside the tokens
  from: number;
  begun?: number; // where it was queued first: durations are measured from here, in all views
  to: number | null;
  state: string;
  parts: Part[];
}

export const tookS = (bar: Bar, now: number): number => Math.max(0, (bar.to ?? now) - (bar.begun ?? bar.from));

export interface Scale {
  from: number;
  to: number;
  width: number;
}

/** All of it, with a little room at the end while it still runs. */
export function reach(bars: Bar[], now: number): { from: number; to: number } {
  if (!bars.length) return { from: now - 1, to: now };
  let [from, to] = [Infinity, -Infinity];
  for (const bar of bars) {
    from = Math.min(from, bar.from);
    to = Math.max(to, bar.to ?? now);
  }
  return { from, to: Math.max(to, from + 0.001) };
}

export function x(moment: number, scale: Scale): number {
  return ((moment - scale.from) / (scale.to - scale.from)) * scale.width;
}

export interface TextPlace {
  x: number;
  anchor: "start" | "end";
  isInside: boolean;
}

/** Where the text of a bar is written: behind it, before it where there is no room, else at its end if it may be inside.
 * `from` and `to` are pixels of the bar in a chart of this width, `room` those that the text needs. */
export function textPlace(
  from: number,
  to: number,
  width: number,
  room: number,
  mayBeInside: boolean,
): TextPlace | null {
  if (to > 0 && to < width - room) return { x: to + 8, anchor: "start", isInside: false };
  if (to > 0 && from > room && from < width) return { x: from - 8, anchor: "end", isInside: false };
  const end = Math.min(to, width);
  const fits = end - Math.max(from, 0) > room;
  return mayBeInside && fits ? { x: end - 8, anchor: "end", isInside: true } : null;
}

const STEPS = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200,
  21_600, 43_200, 86_400,
];

/** Round moments for the axis, seconds since the beginning, at most `most` of them. */
export function ticks(scale: Scale, origin: number, most = 10): number[] {
  const span = scale.to - scale.from;
  const step = STEPS.find((one) => span / one <= most) ?? Math.ceil(span / most / 86_400) * 86_400;
  const first = Math.ceil((scale.from - origin) / step) * step;
  const found: number[] = [];
  for (let at = first; origin + at <= scale.to; at += step) found.push(Number(at.toFixed(6)));
  return found;
}

// A net as the server draws it (src/noetl/language/drawing/drawing.py), and what is marked on it.

export interface Mark {
  sign: string;
  word: string;
  text: string;
}

export interface Line {
  name: string;
  kind: string;
  jumps?: string[];
  under?: string;
  depth?: number;
}

export interface Box {
  name: string;
  role: "start" | "step" | "wait" | "end" | "unknown" | "group";
  marks: Mark[];
  lines: Line[];
  group?: string; // of a folded group: its name, and its steps (groups.ts)
  members?: string[];
}

export interface Way {
  source: string;
  target: string;
  label: string;
  manner: "plain" | "failure" | "computed";
  guard: string;
}

export interface Drawing {
  title: string;
  subtitle: string;
  entry: string;
  boxes: Box[];
  ways: Way[];
}

/** What runs beside a step's tokens: how many of each kind are in which state (lib/run/side_runs.ts). */
export type SideRuns = Record<string, Partial<Record<string, number>>>;

/** What is known of one step at the moment that is shown. `tokens` are on its place, `running` inside it; `queued` have
 * been taken by no worker yet, the oldest since `queuedAt`. */
export interface StepMark {
  tokens: number;
  running: number;
  queued: number;
  queuedAt: string | null;
  done: number;
  failed: number;
  state?: string;
  note?: string;
  loop?: { done: number; failed: number; total: number; unrun: number; passed_over: number };
  sideRuns?: SideRuns;
}

/** A token that has just gone along a way. `id` tells one journey from another. */
export interface Journey {
  id: string;
  source: string;
  target: string;
}

export type Marks = Record<string, StepMark>;

// Groups of steps, by how their names begin: a large net is read with some of them folded into one box each. There is no
// key for groups in a playbook; names are what authors have.

import { stateOf, type StateName } from "../states";
import type { Box, Drawing, Marks, Way } from "./drawing";

/** The steps of each group, by what their names begin with, in the order of the text. */
export type Groups = Map<string, string[]>;

const FEWEST = 3; // steps; folding two hides more than it tidies
const PART = /[_./-]+/g;

/** What a name begins with: its first `parts` parts. Nothing where there are not so many and one more. */
function beginning(name: string, parts: number): string {
  PART.lastIndex = 0;
  for (let n = 0; n < parts; n++) if (!PART.exec(name)) return "";
  return name.slice(0, PART.lastIndex).replace(/[_./-]+$/, "");
}

/** `load_orders` and `load_items` are in the group `load`. Where all names begin alike, the next part tells. */
export function groupsOf(names: readonly string[]): Groups {
  for (let parts = 1; parts <= 4; parts++) {
    const found: Groups = new Map();
    for (const name of names) {
      const key = beginning(name, parts);
      if (!key) continue;
      if (!found.has(key)) found.set(key, []);
      found.get(key)!.push(name);
    }
    if (!found.size) break;
    // Beside nearly all of them there may be a start, an end and some more.
    const others = Math.max(1, Math.floor(names.length / 8));
    const isOne = [...found.values()].some((members) => members.length >= names.length - others);
    if (!isOne) return new Map([...found].filter(([, members]) => members.length >= FEWEST));
  }
  return numberedGroups(names);
}

const MOST_GROUPS = 25;
const FEWEST_NUMBERED = 20; // steps; less would hide little

/** Of a large net whose steps are but numbered (`step_1`, `step_2` …), so many that follow each other are a group. */
function numberedGroups(names: readonly string[]): Groups {
  const alike = new Map<string, { name: string; number: number }[]>();
  for (const name of names.length > MANY ? names : []) {
    const [, base, number] = /^(.*?)(\d+)$/.exec(name) ?? [];
    if (number === undefined) continue;
    if (!alike.has(base!)) alike.set(base!, []);
    alike.get(base!)!.push({ name, number: Number(number) });
  }
  const found: Groups = new Map();
  const size = Math.max(FEWEST_NUMBERED, Math.ceil(names.length / MOST_GROUPS));
  for (const [base, members] of alike) {
    members.sort((one, other) => one.number - other.number);
    for (let at = 0; at < members.length; at += size) {
      const part = members.slice(at, at + size);
      if (part.length >= FEWEST)
        found.set(
          `${base}${part[0]!.number}–${part.at(-1)!.number}`,
          part.map((one) => one.name),
        );
    }
  }
  return found;
}

const SIGN = "*"; // no name of a step holds it

export const boxName = (group: string): string => `${group}${SIGN}`;

export interface Folded {
  drawing: Drawing;
  boxOf: (step: string) => string; // where a step is: itself, or its folded group
}

/** The drawing with some groups as one box each. Arcs between the same two boxes become one; those inside are gone. */
export function folded(drawing: Drawing, groups: Groups, closed: ReadonlySet<string>): Folded {
  const inside = new Map<string, string>();
  for (const group of closed) for (const step of groups.get(group) ?? []) inside.set(step, boxName(group));
  const boxOf = (step: string): string => inside.get(step) ?? step;
  if (!inside.size) return { drawing, boxOf };
  const boxes = new Map<string, Box>();
  for (const box of drawing.boxes) {
    const name = boxOf(box.name);
    if (name === box.name) boxes.set(name, box);
    else if (!boxes.has(name)) {
      const group = name.slice(0, -SIGN.length);
      boxes.set(name, { name, role: "group", marks: [], lines: [], group, members: groups.get(group)! });
    }
  }
  return { drawing: { ...drawing, boxes: [...boxes.values()], ways: merged(drawing.ways, inside) }, boxOf };
}

function merged(ways: readonly Way[], inside: ReadonlyMap<string, string>): Way[] {
  const found: Way[] = [];
  const between = new Map<string, number>(); // where in `found` the arc between two boxes is
  for (const way of ways) {
    const [source, target] = [inside.get(way.source) ?? way.source, inside.get(way.target) ?? way.target];
    if (source === way.source && target === way.target) {
      found.push(way);
      continue;
    }
    if (source === target) continue;
    const key = `${source}\n${target}`;
    const at = between.get(key);
    if (at === undefined) {
      between.set(key, found.push({ ...way, source, target }) - 1);
      continue;
    }
    const one = found[at]!; // several conditions are no condition; one way without failure is enough to be plain
    found[at] = { ...one, label: "", guard: "", manner: one.manner === "failure" ? way.manner : one.manner };
  }
  return found;
}

/** How the steps of a group stand: the gravest state is that of the group. */
export interface GroupMark {
  state?: StateName;
  counts: { state: StateName; number: number }[];
}

const GRAVE: StateName[] = ["failed", "running", "waiting", "paused", "queued", "cancelled", "completed"];

export function groupMark(members: readonly string[], marks: Marks): GroupMark {
  const numbers = new Map<StateName, number>();
  for (const step of members) {
    const mark = marks[step];
    if (!mark?.state) continue;
    const state = mark.loop?.failed ? "failed" : stateOf(mark.state); // a loop that lost iterations may be done
    numbers.set(state, (numbers.get(state) ?? 0) + 1);
  }
  const counts = GRAVE.flatMap((state) => (numbers.has(state) ? [{ state, number: numbers.get(state)! }] : []));
  return { state: counts[0]?.state, counts };
}

const MANY = 60; // steps: a net of more is shown folded first

/** Which groups are folded: as the address says (`none`, or names with commas), else all of them in a large net. */
export function closedGroups(said: string | null, groups: Groups, steps: number): Set<string> {
  if (said === null) return new Set(steps > MANY ? groups.keys() : []);
  return new Set(said.split(",").filter((one) => groups.has(one)));
}

/** As the address says it; null where it is what one would see anyway. */
export function saidOf(closed: ReadonlySet<string>, groups: Groups, steps: number): string | null {
  const usual = closedGroups(null, groups, steps);
  if (closed.size === usual.size && [...closed].every((one) => usual.has(one))) return null;
  return closed.size ? [...closed].join(",") : "none";
}

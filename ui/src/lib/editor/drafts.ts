// Text that was typed and not registered, kept in this browser until it is: going elsewhere loses nothing. Every time
// somebody begins to type is a draft of its own, so none takes the place of another. Each is its author's alone: whoever
// signs in to the same browser next does not see it.

export interface Draft {
  id: string;
  by: string; // the subject that typed it; empty for one of an earlier version, which is anybody's
  path: string; // of the playbook that it was typed in; empty for a new one
  openedFrom: string; // the version that it was made from, as path@version; empty for a new one
  text: string;
  at: number; // when it was last typed in, in milliseconds
  runs: string[]; // its executions
}

const PREFIX = "noetl.draft.";
const RUNS = 20; // the newest are kept

export const freshId = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(6)), (byte) => byte.toString(16).padStart(2, "0")).join("");

export function keepDraft(draft: Omit<Draft, "at" | "runs">, run = ""): void {
  const runs = [...(draftOf(draft.id, draft.by)?.runs ?? []), ...(run ? [run] : [])].slice(-RUNS);
  try {
    localStorage.setItem(PREFIX + draft.id, JSON.stringify({ ...draft, at: Date.now(), runs }));
  } catch {
    // a browser may forbid storage, or have no room
  }
}

export function dropDraft(id: string): void {
  try {
    localStorage.removeItem(PREFIX + id);
  } catch {
    // see above
  }
}

export function draftOf(id: string, by: string): Draft | null {
  try {
    const found = read(PREFIX + id);
    return found && isOf(found, by) ? found : null;
  } catch {
    return null;
  }
}

const isOf = (draft: Draft, by: string): boolean => !draft.by || draft.by === by;

/** What was left of a playbook, the newest first, without those that are the text already. */
export const draftsOf = (path: string, text: string, by: string): Draft[] =>
  all(by)
    .filter((one) => one.path === path && one.text !== text)
    .sort((one, other) => other.at - one.at);

/** The draft that an execution ran, if it was typed in this browser and is still there. */
export const draftOfRun = (execution: string, by: string): Draft | null =>
  all(by).find((one) => one.runs.includes(execution)) ?? null;

/** The path that a text gives itself: what its author knows a new playbook by. */
export const pathIn = (text: string): string =>
  /^(?:\s+|metadata:\s*\{.*?\b)path:\s*["']?([^\s"',}]+)/m.exec(text)?.[1] ?? "";

function all(by: string): Draft[] {
  try {
    const keys = Object.keys(localStorage).filter((key) => key.startsWith(PREFIX));
    return keys.map(read).filter((one): one is Draft => one !== null && isOf(one, by));
  } catch {
    return [];
  }
}

function read(key: string): Draft | null {
  const kept = localStorage.getItem(key);
  if (kept === null) return null;
  try {
    return JSON.parse(kept) as Draft;
  } catch {
    // as an earlier version kept it: the text alone, under the path of its playbook
    const path = key.slice(PREFIX.length);
    return { id: path, by: "", path, openedFrom: "", text: kept, at: 0, runs: [] };
  }
}

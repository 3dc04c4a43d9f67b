// What tasks of one execution print while they run. The shared connection says when there is more; the lines are asked
// for then, past those that are here. Best effort: what a task printed in the end is in the log.

import { get } from "../api/client";
import { subscribe } from "../api/live.svelte";
import type { LiveOutputPage, TaskOutput } from "../api/shapes";

export const MOST_LINES = 1000; // of one task run; the server keeps no more

const MOST_SERVERS = 20; // processes whose cursors are sent

export interface LiveRun extends TaskOutput {
  /** The process of the server that has told of it: others do not know its lines. */
  era: string;
  /** That process tells of it no more: it has ended. */
  isOver: boolean;
}

/** The process of the server that has answered. */
const eraOf = (cursor: string): string => cursor.split(".")[0]!;

/** What is known of the task runs once a page has come. */
export function joined(known: LiveRun[], page: LiveOutputPage): LiveRun[] {
  const era = eraOf(page.cursor);
  const told = new Map(page.tasks.map((one) => [one.task_run_id, one]));
  const before = known.map((run) => {
    if (run.era !== era) return run;
    const more = told.get(run.task_run_id);
    if (!more) return { ...run, isOver: true };
    told.delete(run.task_run_id);
    const lines = page.is_whole ? more.lines : [...run.lines, ...more.lines];
    const cut = Math.max(0, lines.length - MOST_LINES);
    return { ...more, lines: lines.slice(cut), era, isOver: false };
  });
  return [...before, ...[...told.values()].map((one) => ({ ...one, era, isOver: false }))];
}

export class LiveOutput {
  runs = $state.raw<LiveRun[]>([]);
  private readonly cursors = new Map<string, string>(); // by process of the server: any of them may answer
  private reading = false;
  private again = false;
  private closed = false;
  private readonly stop: () => void;

  constructor(private readonly executionId: string) {
    // A row says that something has ended; a connection that is back says nothing of what was missed.
    const ask = (): void => void this.read();
    this.stop = subscribe({ about: executionId, output: ask, row: ask, reset: ask });
    void this.read();
  }

  private async read(): Promise<void> {
    if (this.closed) return;
    if (this.reading) {
      this.again = true;
      return;
    }
    this.reading = true;
    do {
      this.again = false;
      const after = [...this.cursors.values()].slice(-MOST_SERVERS).join(",");
      try {
        const page = await get<LiveOutputPage>(`executions/${this.executionId}/output`, { after });
        if (this.closed) return;
        this.cursors.set(eraOf(page.cursor), page.cursor);
        if (page.tasks.length || this.runs.length) this.runs = joined(this.runs, page);
      } catch {
        // The page says already when the server is away.
      }
    } while (this.again && !this.closed);
    this.reading = false;
  }

  close(): void {
    this.closed = true;
    this.stop();
  }
}

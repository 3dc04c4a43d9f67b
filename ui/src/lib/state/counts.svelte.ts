// What waits for somebody, counted for the menu.

import { get } from "../api/client";
import { refreshOnChange } from "../api/live.svelte";
import type { ExecutionPage, TaskPage } from "../api/shapes";
import { alerts, announceFailures, announceTasks } from "./alerts.svelte";

const MOST = 100; // counted; more are "99+"

export const counts = $state({ tasks: 0 });

/** Count again at once, after an action of the user that changes the counts. */
export async function recount(): Promise<void> {
  try {
    const { tasks } = await get<TaskPage>("tasks", { mine: true, limit: MOST });
    counts.tasks = tasks.length;
    announceTasks(tasks);
    if (alerts.failures) {
      announceFailures((await get<ExecutionPage>("executions", { status: "failed", limit: MOST })).executions);
    }
  } catch {
    // the page says already when the server is away
  }
}

/** Keep the counts while somebody looks; gives how to stop. */
export function keepCounts(): () => void {
  void recount();
  return refreshOnChange(recount, 3, () => alerts.tasks || alerts.failures);
}

export const counted = (number: number): string => (number >= MOST ? "99+" : String(number));

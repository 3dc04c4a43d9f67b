// What waits for somebody, counted for the menu.

import { get } from "../api/client";
import { refreshOnChange } from "../api/live.svelte";
import type { TaskPage } from "../api/shapes";
import { announceTasks, taskAlerts } from "./task_alerts.svelte";

const MOST = 100; // counted; more are "99+"

export const counts = $state({ tasks: 0 });

/** Count anew, at once: whoever has done something that counts does not wait for the next time. */
export async function recount(): Promise<void> {
  try {
    const { tasks } = await get<TaskPage>("tasks", { mine: true, limit: MOST });
    counts.tasks = tasks.length;
    announceTasks(tasks);
  } catch {
    // the page says already when the server is away
  }
}

/** Keep the counts while somebody looks; gives how to stop. */
export function keepCounts(): () => void {
  void recount();
  return refreshOnChange(recount, 3, () => taskAlerts.isOn);
}

export const counted = (number: number): string => (number >= MOST ? "99+" : String(number));

// Notifications of the browser about tasks that are new. Asked for with a press only, and kept in this browser.

import { t } from "../../texts/shell";
import type { HumanTask } from "../api/shapes";
import { go, href } from "../router.svelte";

const KEY = "noetl.task-alerts";
const isThere = (): boolean => typeof Notification === "function";

function stored(): boolean {
  try {
    return isThere() && Notification.permission === "granted" && localStorage.getItem(KEY) === "on";
  } catch {
    return false; // a browser may forbid storage
  }
}

/** `isOffered` is false where the browser has none, as on a page without TLS. */
export const taskAlerts = $state({ isOn: stored(), isOffered: isThere(), isDenied: false });

let known: Set<string> | null = null; // tasks that were there already; null before the first answer

export async function turnTaskAlerts(on: boolean): Promise<void> {
  const answer = on ? await Notification.requestPermission() : "granted";
  taskAlerts.isDenied = answer !== "granted";
  taskAlerts.isOn = on && answer === "granted";
  try {
    localStorage.setItem(KEY, taskAlerts.isOn ? "on" : "");
  } catch {
    // see above
  }
}

/** Tell of those that were not there when they were last asked for. */
export function announceTasks(tasks: readonly HumanTask[]): void {
  const before = known;
  known = new Set(tasks.map((one) => one.task_id));
  if (!before || !taskAlerts.isOn) return;
  for (const task of tasks.filter((one) => !before.has(one.task_id))) {
    // The tag: each tab of the browser tells of it, and the browser shows it once.
    const notice = new Notification(task.title, { body: t.aTaskWaitsForYou, tag: task.task_id });
    notice.onclick = () => {
      window.focus();
      go(href(`/tasks/${task.task_id}`));
      notice.close();
    };
  }
}

// Notifications of the browser about new tasks and failed executions. Asked for with a press only, and kept in this browser.

import { t } from "../../texts/shell";
import type { ExecutionRow, HumanTask } from "../api/shapes";
import { go, href } from "../router.svelte";

export type AlertKind = "tasks" | "failures";
const KEYS: Record<AlertKind, string> = { tasks: "noetl.task-alerts", failures: "noetl.failure-alerts" };
const isSupported = (): boolean => typeof Notification === "function";

function isStored(kind: AlertKind): boolean {
  try {
    return isSupported() && Notification.permission === "granted" && localStorage.getItem(KEYS[kind]) === "on";
  } catch {
    return false; // a browser may forbid storage
  }
}

/** `isOffered` is false where the browser has no notifications, as on a page without TLS. */
export const alerts = $state({
  tasks: isStored("tasks"),
  failures: isStored("failures"),
  isOffered: isSupported(),
  isDenied: false,
});

// What was there already, by kind; null before the first answer.
const known: Record<AlertKind, Set<string> | null> = { tasks: null, failures: null };

export async function turnAlerts(kind: AlertKind, on: boolean): Promise<void> {
  const answer = on ? await Notification.requestPermission() : "granted";
  alerts.isDenied = answer !== "granted";
  alerts[kind] = on && answer === "granted";
  if (kind === "failures") known.failures = null; // they were not requested while this was off
  try {
    localStorage.setItem(KEYS[kind], alerts[kind] ? "on" : "");
  } catch {
    // see above
  }
}

interface Alert {
  id: string;
  title: string;
  body: string;
  address: string;
}

/** Show those that were not there when they were last asked for. */
function announce(kind: AlertKind, found: readonly Alert[]): void {
  const before = known[kind];
  known[kind] = new Set(found.map((one) => one.id));
  if (!before || !alerts[kind]) return;
  for (const { id, title, body, address } of found.filter((one) => !before.has(one.id))) {
    // The tag: each tab of the browser shows it, and the browser keeps one of them.
    const notice = new Notification(title, { body, tag: id });
    notice.onclick = () => {
      window.focus();
      go(address);
      notice.close();
    };
  }
}

export const announceTasks = (tasks: readonly HumanTask[]): void =>
  announce(
    "tasks",
    tasks.map(({ task_id: id, title }) => ({ id, title, body: t.aTaskIsAssigned, address: href(`/tasks/${id}`) })),
  );

/** Of nested executions only the outermost: it fails with them, or has handled the failure. */
export const announceFailures = (rows: readonly ExecutionRow[]): void =>
  announce(
    "failures",
    rows
      .filter((row) => !row.parent_execution_id)
      .map(({ execution_id: id, name, path }) => ({
        id,
        title: t.executionFailed(name),
        body: path,
        address: href(`/executions/${id}`),
      })),
  );

import { area, type Value } from "./area";

export const t = area("home", {
  // Home.svelte
  home: "Home",
  nothingHasRunHereYet: "Nothing has run here yet",
  seeTokensMoveASmall: "See tokens move: a small order process with a loop, a fork and a join.",
  runTheDemo: "Run the demo",
  orWriteAPlaybookOf: "Or write a playbook of your own under",
  playbooks: "Playbooks",
  startedPerMinuteLastHour: "Started per minute, last hour",
  inTotal: "in total",
  failedPerMinuteLastHour: "Failed per minute, last hour",
  p95DurationPerMinute: "p95 duration per minute, last hour",
  now: (number: Value) => `now ${number}`,
  ordersQueuedForWorkers: (orders: number, workers: number) =>
    `${orders === 1 ? "order" : "orders"} queued for ${workers} ${workers === 1 ? "worker" : "workers"}`,
  noWorkerTakes: (untaken: number, queued: number) =>
    untaken < queued ? `; no worker takes ${untaken} of them` : `; no worker takes ${untaken === 1 ? "it" : "them"}`,
  last24Hours: "Last 24 hours",
  last30Days: "Last 30 days",
  trendBy: "Trend by",
  by: (one: Value) => `by ${one}`,
  running: "Running",
  wakes: (wakeAt: Value) => `next timer ${wakeAt} · `,
  waitingFor: "Waiting for:",
  noExecutionIsRunning: "no execution is running",
  recentFailures: "Recent failures",
  failedInStep: "Failed in step",
  timesLately: (many: Value) => `${many} times`,
  showAllAlike: "Show all that failed in the same way",
  completedWithFailedItems: "Completed, but items of a loop failed",
  noFailures: "no failures that are still to be run again",
  yourTasks: "Your tasks",
  due: (dueAt: Value) => `due ${dueAt}`,
  noTasksForYou: "no task is assigned to you",
  allOpenTasks: "All open tasks",

  // Late.svelte
  late: "Late",
  started: (startedAt: Value) => `started ${startedAt}`,
  ofSpan: (at: Value, completed: Value, failed: Value, started: Value) =>
    `${at}: ${completed} completed, ${failed} failed, ${started} started`,
  p95: (span: Value) => `, p95 ${span}`,
  lateForStartedAgo: (lateSince: Value, startedAt: Value) => `late for ${lateSince}, started ${startedAt} ago`,
});

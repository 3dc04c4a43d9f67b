// Every screen with its address. A screen is a component that takes the parts of its address as props.

import type { Component } from "svelte";

export const ROUTES: Record<string, string> = {
  home: "/",
  catalog: "/catalog",
  playbook: "/catalog/playbook/*path",
  edit: "/catalog/edit/*path",
  create: "/catalog/new",
  start: "/catalog/start/*path",
  executions: "/executions",
  compare: "/executions/compare",
  execution: "/executions/:id",
  tasks: "/tasks",
  task: "/tasks/:id",
  schedules: "/schedules",
  triggers: "/triggers",
  messages: "/messages",
  notifications: "/notifications",
  workers: "/workers",
  credentials: "/credentials",
  settings: "/settings",
  audit: "/audit",
};

// Each screen has its own props: they are the parts of its address, which the router gives as text.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
type Loaded = Promise<{ default: Component<any> }>;

export const SCREENS: Record<string, () => Loaded> = {
  login: () => import("./Login.svelte"),
  missing: () => import("./Missing.svelte"),
  home: () => import("./Home.svelte"),
  catalog: () => import("./Catalog.svelte"),
  playbook: () => import("./Playbook.svelte"),
  edit: () => import("./Edit.svelte"),
  create: () => import("./Create.svelte"),
  start: () => import("./Start.svelte"),
  executions: () => import("./Executions.svelte"),
  compare: () => import("./CompareRuns.svelte"),
  execution: () => import("./Execution.svelte"),
  tasks: () => import("./Tasks.svelte"),
  task: () => import("./Task.svelte"),
  schedules: () => import("./Schedules.svelte"),
  triggers: () => import("./Triggers.svelte"),
  messages: () => import("./Messages.svelte"),
  notifications: () => import("./Notifications.svelte"),
  workers: () => import("./Workers.svelte"),
  credentials: () => import("./Credentials.svelte"),
  settings: () => import("./Settings.svelte"),
  audit: () => import("./Audit.svelte"),
};

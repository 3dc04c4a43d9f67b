// Every screen with its address. A screen is a component that takes the parts of its address as props.

import type { Component } from "svelte";

export const ROUTES: Record<string, string> = {
  home: "/",
  catalog: "/catalog",
  edit: "/catalog/edit/*path",
  create: "/catalog/new",
  start: "/catalog/start/*path",
  executions: "/executions",
  execution: "/executions/:id",
  tasks: "/tasks",
  task: "/tasks/:id",
  schedules: "/schedules",
  messages: "/messages",
  workers: "/workers",
  credentials: "/credentials",
  settings: "/settings",
  audit: "/audit",
};

type Loaded = Promise<{ default: Component<any> }>;

export const SCREENS: Record<string, () => Loaded> = {
  login: () => import("./Login.svelte"),
  missing: () => import("./Missing.svelte"),
  home: () => import("./Home.svelte"),
  executions: () => import("./Executions.svelte"),
  execution: () => import("./Execution.svelte"),
};

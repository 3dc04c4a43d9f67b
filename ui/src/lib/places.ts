// The screens of the menu, with the letter that leads to each after `g`.

import { t } from "../texts/shell";
import { may } from "./state/session.svelte";

export interface Place {
  name: string;
  path: string;
  word: string;
  key: string;
  role?: "author" | "admin"; // who may see it; everybody without it
}

const all = (): Place[] => [
  { name: "home", path: "/", word: t.home, key: "h" },
  { name: "catalog", path: "/catalog", word: t.playbooks, key: "p" },
  { name: "executions", path: "/executions", word: t.executions, key: "e" },
  { name: "tasks", path: "/tasks", word: t.tasks, key: "t" },
  { name: "schedules", path: "/schedules", word: t.schedules, key: "s" },
  { name: "triggers", path: "/triggers", word: t.triggers, key: "r" },
  { name: "messages", path: "/messages", word: t.messages, key: "m" },
  { name: "notifications", path: "/notifications", word: t.notifications, key: "n" },
  { name: "workers", path: "/workers", word: t.workers, key: "w" },
  { name: "credentials", path: "/credentials", word: t.credentials, key: "c", role: "author" },
  { name: "settings", path: "/settings", word: t.settings, key: "," },
  { name: "audit", path: "/audit", word: t.audit, key: "a", role: "admin" },
];

/** Those that the signed-in user may open. */
export const places = (): Place[] => all().filter((one) => !one.role || may(one.role));

export type Goal = Pick<Place, "word" | "path">;

/** Where the search leads besides: parts of a screen that people look for by their own name. */
export const goals = (): Goal[] => [...places(), ...(may("author") ? [{ word: t.webhooks, path: "/triggers" }] : [])];

const FAMILY: Record<string, string> = {
  execution: "executions",
  compare: "executions",
  playbook: "catalog",
  edit: "catalog",
  create: "catalog",
  start: "catalog",
  task: "tasks",
};

/** The place of the menu to which a screen belongs. */
export const placeOf = (screen: string): string => FAMILY[screen] ?? screen;

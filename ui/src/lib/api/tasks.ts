// What is asked of the server about human tasks.

import { get, send } from "./client";
import type { HumanTask, TaskPage } from "./shapes";

export const listTasks = (query: { state?: string; mine?: boolean; limit?: number; execution_id?: string }) =>
  get<TaskPage>("tasks", query);
export const getTask = (id: string) => get<HumanTask>(`tasks/${id}`);
export const act = (task: HumanTask, action: "claim" | "release") =>
  send<HumanTask>("POST", `tasks/${task.task_id}/${action}`, { version: task.version });
/** The values of its form, and a comment that comes into the history with them. */
export const complete = (task: HumanTask, values: Record<string, unknown>, comment: string) =>
  send<HumanTask>("POST", `tasks/${task.task_id}/complete`, { values, comment, version: task.version });
export const comment = (id: string, text: string) => send<HumanTask>("POST", `tasks/${id}/comment`, { text });

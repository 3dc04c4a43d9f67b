// What the server tells of human tasks.

import { get, send } from "./client";

export interface FormField {
  field: string;
  type: "enum" | "string" | "text" | "number" | "integer" | "boolean" | "date";
  options?: unknown[];
  required?: boolean;
  default?: unknown;
}

export interface HumanTask {
  task_id: string;
  execution_id: string;
  step: string;
  state: "open" | "claimed" | "completed" | "withdrawn";
  version: number;
  title: string;
  role: string | null;
  user: string | null;
  form: FormField[];
  claimed_by: string | null;
  completed_by: string | null;
  result: Record<string, unknown> | null;
  created_at: string;
  due_at: string | null;
  overdue: boolean;
  escalated: boolean;
  ended_at: string | null;
}

export const listTasks = (query: { state?: string; mine?: boolean; limit?: number }) => get<{ tasks: HumanTask[]; next?: string | null }>("tasks", query);
export const getTask = (id: string) => get<HumanTask>(`tasks/${id}`);
export const act = (task: HumanTask, action: "claim" | "release" | "complete", values?: Record<string, unknown>) =>
  send<HumanTask>("POST", `tasks/${task.task_id}/${action}`, action === "complete" ? { values: values ?? {}, version: task.version } : { version: task.version });

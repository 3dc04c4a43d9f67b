// What is asked of the server about executions.

import { get, send } from "./client";
import type { Bulk, ExecutionDetail, ExecutionPage, Explanation, Rerun, Started, StateView, Timeline } from "./shapes";
import type { Drawing } from "../net/drawing";

export interface ExecutionFilter {
  status?: string;
  path?: string;
  since?: string;
  until?: string;
  text?: string;
  label?: string; // key=value
}

export const listExecutions = (filter: ExecutionFilter, cursor?: string | null, limit = 100) =>
  get<ExecutionPage>("executions", { ...filter, cursor, limit });

export const getExecution = (id: string) => get<ExecutionDetail>(`executions/${id}`);
export const getState = (id: string, at?: number) => get<StateView>(`executions/${id}/state`, { at });
export const getTimeline = (id: string) => get<Timeline>(`executions/${id}/steps`);
export const explain = (id: string) => get<Explanation>(`executions/${id}/explain`);
export const getDrawing = async (id: string) => (await get<{ drawing: Drawing }>(`executions/${id}/graph`, { format: "json" })).drawing;

export type Action = "pause" | "resume" | "cancel";
export const steer = (id: string, action: Action) => send("POST", `executions/${id}/${action}`, {});
export const bulk = (action: Action, ids: string[]) => send<Bulk>("POST", "executions/bulk", { action, execution_ids: ids });
export const rerun = (id: string, body: Partial<Rerun> = {}) =>
  send<Started>("POST", `executions/${id}/rerun`, body, { headers: { "Idempotency-Key": crypto.randomUUID() } });

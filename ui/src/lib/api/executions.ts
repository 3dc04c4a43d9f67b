// What the server tells of executions. Shapes are those of the API; types.ts is generated from it.

import { get, send } from "./client";
import type { Drawing } from "../net/drawing";

export interface ExecutionRow {
  execution_id: string;
  path: string;
  name: string;
  status: string;
  created_at: string;
  finished_at: string | null;
  duration_s: number | null;
  events: number;
  parent_execution_id: string | null;
  wake_at: string | null;
}

export interface ExecutionDetail extends ExecutionRow {
  version: number | null;
  label: string | null;
  payload: unknown;
  error: { kind: string; message: string } | null;
  children: ExecutionRow[];
}

export interface ExecutionFilter {
  status?: string;
  path?: string;
  since?: string;
  until?: string;
  text?: string;
}

export interface StepBar {
  step: string;
  step_run_id: string;
  scheduled_at: string;
  started_at: string | null;
  finished_at: string | null;
  status: string;
  worker_id: string | null;
  total: number | null;
  done: number;
  failed: number;
  task_runs: number;
  tasks: { task: string; attempt: number; started_at: string | null; finished_at: string | null; status: string; do: string | null }[];
}

export interface TokenRow {
  token_id: string;
  step: string;
  state: string;
  waits_for: string;
  args: Record<string, unknown>;
  step_run_id: string | null;
  started_at: string | null;
  task: string | null;
  attempt: number | null;
  loop: Record<string, number> | null;
}

export interface StateView {
  at: number;
  status: string;
  marking: Record<string, number>;
  ctx: Record<string, unknown>;
  workload: Record<string, unknown>;
  results: Record<string, unknown>;
}

export const listExecutions = (filter: ExecutionFilter, cursor?: string | null, limit = 100) =>
  get<{ executions: ExecutionRow[]; next: string | null }>("executions", { ...filter, cursor, limit });

export const getExecution = (id: string) => get<ExecutionDetail>(`executions/${id}`);
export const getState = (id: string, at?: number) => get<StateView>(`executions/${id}/state`, { at });
export const getTimeline = (id: string) => get<{ steps: StepBar[] }>(`executions/${id}/steps`);
export const explain = (id: string) => get<{ status: string; stuck: boolean; sentences: string[]; tokens: TokenRow[] }>(`executions/${id}/explain`);
export const getDrawing = async (id: string) => (await get<{ drawing: Drawing }>(`executions/${id}/graph`, { format: "json" })).drawing;

export type Action = "pause" | "resume" | "cancel";
export const steer = (id: string, action: Action) => send(`POST`, `executions/${id}/${action}`, {});
export const bulk = (action: Action, ids: string[]) => Promise.all(ids.map((id) => steer(id, action)));
export const rerun = (id: string, body: { version?: string | number; payload?: unknown; from?: string } = {}) =>
  send<{ execution_id: string }>("POST", `executions/${id}/rerun`, body);

// What is asked of the server about executions.

import { get, idempotencyKey, send } from "./client";
import type {
  AttemptInputs,
  AttemptPage,
  Bulk,
  ExecutionComparison,
  ExecutionDetail,
  ExecutionPage,
  Explanation,
  FailureGroups,
  IterationView,
  LimitRate,
  LogPage,
  LoopsView,
  ProjectionView,
  Rerun,
  Started,
  StateView,
  StuckExecutions,
  StepLimits,
  Timeline,
} from "./shapes";
import type { Drawing } from "../net/drawing";

export interface ExecutionFilter {
  status?: string;
  path?: string;
  since?: string;
  until?: string;
  text?: string;
  label?: string; // key=value
  error?: string; // the kind of error that it failed with
  step?: string; // that it failed in
}

export const listExecutions = (filter: ExecutionFilter, cursor?: string | null, limit = 100) =>
  get<ExecutionPage>("executions", { ...filter, cursor, limit });

/** Why executions failed, by step and kind of error. */
export const getFailures = ({ path, since, until, text, label }: ExecutionFilter) =>
  get<FailureGroups>("executions/failures", { path, since, until, text, label });

/** Executions whose orders no worker takes; one of them by its id. */
export const getStuck = (id?: string) => get<StuckExecutions>("stuck", { execution_id: id });
export const getExecution = (id: string) => get<ExecutionDetail>(`executions/${id}`);
export const getState = (id: string, at?: number) => get<StateView>(`executions/${id}/state`, { at });
/** What the server has folded: after event `at`, or now; only what changed after event `since`. */
export const getProjection = (id: string, at?: number, since = 0) =>
  get<ProjectionView>(`executions/${id}/projection`, { at, since });
export const getLoops = (
  id: string,
  asked: { at?: number; since?: number; step?: string; run?: string; path?: string },
) =>
  get<LoopsView>(`executions/${id}/loops`, {
    at: asked.at,
    since: asked.since,
    step: asked.step,
    step_run_id: asked.run,
    path: asked.path,
  });
export const getIteration = (id: string, run: string, path: string) =>
  get<IterationView>(`executions/${id}/iteration`, { step_run_id: run, path });
export const getAttempts = (id: string, step: string, after = 0) =>
  get<AttemptPage>(`executions/${id}/attempts`, { step, after });
/** What an attempt was given, and what differs from the one before it, or from the execution `against`. */
export const getAttemptInputs = (id: string, seq: number, against?: string) =>
  get<AttemptInputs>(`executions/${id}/attempts/${seq}/inputs`, { against });
/** What differs from the execution `against`, or without it from the run of the same playbook before. */
export const getComparison = (id: string, against?: string) =>
  get<ExecutionComparison>(`executions/${id}/compare`, { against });
export const getLogs = (id: string) => get<LogPage>(`executions/${id}/logs`);
export const getTimeline = (id: string) => get<Timeline>(`executions/${id}/steps`);
export const explain = (id: string) => get<Explanation>(`executions/${id}/explain`);
export const getDrawing = async (id: string) =>
  (await get<{ drawing: Drawing }>(`executions/${id}/graph`, { format: "json" })).drawing;

/** Limits of steps; null is as the playbook says. */
export const getLimits = (id: string) => get<StepLimits>(`executions/${id}/limits`);
export const setLimit = (
  id: string,
  step: string,
  asked: { limit: number | null; rate: LimitRate | null; reason?: string },
) => send("PUT", `executions/${id}/limits/${encodeURIComponent(step)}`, asked);
export const resetLimit = (id: string, step: string) =>
  send("DELETE", `executions/${id}/limits/${encodeURIComponent(step)}`);

export type Action = "pause" | "resume" | "cancel";
/** What may be said with it: why, and, of cancelling, whether what was done is undone first. */
export interface Steering {
  reason?: string;
  compensate?: boolean;
}
export const steer = (id: string, action: Action, asked: Steering = {}) =>
  send("POST", `executions/${id}/${action}`, asked);
export const bulk = (action: Action, ids: string[], asked: Steering = {}) =>
  send<Bulk>("POST", "executions/bulk", { action, execution_ids: ids, ...asked });
export const rerun = (id: string, body: Partial<Rerun> = {}) =>
  send<Started>("POST", `executions/${id}/rerun`, body, { headers: { "Idempotency-Key": idempotencyKey() } });

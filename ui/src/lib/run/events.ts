// Events of one execution, kept small: a long log has hundreds of thousands. The whole of one is asked for when shown.

import { t } from "../../texts/run";

export interface RawEvent {
  seq: number;
  event_type: string;
  ts: string;
  source: string;
  status: string;
  step: string | null;
  step_run_id: string | null;
  payload: Record<string, unknown>;
}

export interface Slim {
  seq: number;
  type: string;
  at: number; // seconds
  status: string; // the event's own, or "stopped" if it was withdrawn
  step: string;
  target: string; // of a token that goes somewhere
  gist: string; // what it says, in a line
}

const TEXT = (value: unknown): string =>
  typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(value);

function gistOf(event: RawEvent): string {
  const payload = event.payload;
  const error = (payload.error ?? (payload.outcome as Record<string, unknown> | undefined)?.error) as
    { kind?: string; message?: string } | null | undefined;
  if (error?.message)
    return `${event.event_type === "hook.failed" ? `${TEXT(payload.phase)} ${TEXT(payload.hook)}, ` : ""}${error.kind}: ${error.message}`;
  if (event.event_type === "handler.started")
    return t.taskFor(TEXT(payload.task), TEXT((payload.event as { name?: string } | undefined)?.name));
  if (payload.task) {
    const decision = payload.decision as { do?: string } | undefined;
    const task = TEXT(payload.task);
    const named = payload.attempt && payload.attempt !== 1 ? t.attempt(task, TEXT(payload.attempt)) : task;
    return decision?.do && decision.do !== "continue" ? `${named} → ${decision.do}` : named;
  }
  switch (event.event_type) {
    case "next.enqueued":
    case "token.created":
      return `→ ${TEXT(payload.step)}`;
    case "next.selected":
      return (
        ((payload.arcs as { step: string; fired?: boolean }[] | undefined) ?? [])
          .filter((arc) => arc.fired)
          .map((arc) => `→ ${arc.step}`)
          .join(" ") || t.ends(TEXT(payload.ended))
      );
    case "compensation.requested":
      return t.toUndo(((payload.registrations as unknown[] | undefined) ?? []).length, TEXT(payload.cause));
    case "ctx.patched":
      return Object.keys((payload.patch as object | undefined) ?? {}).join(", ");
    case "token.held":
      return TEXT(payload.reason);
    case "token.claimed":
    case "step.started":
      return TEXT(payload.worker_id);
    case "playbook.paused":
    case "playbook.resumed":
    case "playbook.cancelled":
      return [payload.actor, payload.reason].map(TEXT).filter(Boolean).join(": ");
    case "loop.started":
      return t.items(TEXT(payload.total));
    default:
      return TEXT(payload.name ?? payload.reason ?? payload.title ?? payload.status ?? "");
  }
}

export function slim(event: RawEvent): Slim {
  const payload = event.payload;
  return {
    seq: event.seq,
    type: event.event_type,
    at: Date.parse(event.ts) / 1000,
    status: payload.stopped === true ? "stopped" : event.status,
    step: event.step ?? "",
    target: typeof payload.step === "string" ? payload.step : "",
    gist: gistOf(event).slice(0, 200),
  };
}

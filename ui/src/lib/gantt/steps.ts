// Step runs as bars: queued, running, waiting, and below them their tasks, each attempt with the pause before it.

import type { Pause, StepBar } from "../api/shapes";
import { KINDS, type SideRun } from "../run/side_runs";
import { SIGNS } from "../states";
import { t } from "../../texts/run";
import { failedOf, span, stateWord, when } from "../words";
import type { Bar, Part } from "./bars";

const seconds = (text: string | null): number | null => (text ? Date.parse(text) / 1000 : null);
const NOTICEABLE_S = 0.0005;

function iterations({ total, done, failed, finished_at: end }: StepBar): string {
  if (total === null) return "";
  return failed ? ` (${failedOf(failed, total, end ? total - done - failed : 0)})` : ` (${done}/${total})`;
}

/** Tasks that are in the text of the step: what it is compiled to has others. */
export function writtenTasks(step: StepBar, written: ReadonlySet<string>): StepBar {
  const isWritten = ({ task }: StepBar["tasks"][number]): boolean => !task.includes("__") || written.has(task);
  return step.tasks.every(isWritten) ? step : { ...step, tasks: step.tasks.filter(isWritten) };
}

function retries(step: StepBar): string {
  const number = step.tasks.filter((task) => task.attempt > 1 && task.start === 1).length;
  return number ? t.retries(number) : "";
}

function lostStarts(step: StepBar): string {
  const number = step.tasks.filter((task) => task.status === "lost").length;
  return number ? t.lostStarts(number) : "";
}

/** The pauses before its retries, drawn over the bar of a step so that they are seen without opening it. */
function pauses(step: StepBar, now: number): Part[] {
  if (!step.tasks.some((task) => task.do === "retry")) return [];
  return tasksOf(step, now).flatMap((bar) => bar.parts.filter((part) => part.kind === "backoff"));
}

export function barOf(step: StepBar, now: number): Bar {
  const [from, to] = [seconds(step.scheduled_at)!, seconds(step.finished_at)];
  // A run may have 10,000 step runs, of which a screen shows thirty: only those that are seen are worded.
  return {
    id: step.step_run_id,
    get label() {
      return `${step.step}${iterations(step)}${retries(step)}${lostStarts(step)}${step.status === "scheduled" ? t.stillQueued : ""}`;
    },
    step: step.step,
    depth: 0,
    from,
    begun: seconds(step.started_at) ?? from,
    to,
    state: step.status,
    get parts() {
      return [...partsOf(step, from, to, now), ...pauses(step, now)];
    },
  };
}

function partsOf(step: StepBar, from: number, to: number | null, now: number): Part[] {
  const [started, waiting] = [seconds(step.started_at), seconds(step.waiting_at)];
  const parts: Part[] = [];
  if (started === null || started - from > NOTICEABLE_S)
    parts.push({
      kind: "queued",
      from,
      to: started ?? to,
      state: "queued",
      title:
        step.status === "scheduled"
          ? t.queuedSince(when(step.scheduled_at), span(now - from))
          : t.queuedFor(span((started ?? to ?? now) - from)),
    });
  if (started !== null && (waiting === null || waiting - started > NOTICEABLE_S)) {
    const until = waiting ?? to;
    const state = waiting === null ? step.status : "completed";
    const word = waiting === null ? stateWord(step.status) : t.ran;
    parts.push({
      kind: "running",
      from: started,
      to: until,
      state,
      title: step.worker_id
        ? t.stateOn(word, span((until ?? now) - started), step.worker_id)
        : t.stateFor(word, span((until ?? now) - started)),
    });
  }
  if (waiting !== null)
    parts.push({
      kind: "waiting",
      from: waiting,
      to,
      state: "waiting",
      title: t.waitingFor(span((to ?? now) - waiting), step.waits_for.join(t.or)),
    });
  return parts;
}

function titleOf(task: StepBar["tasks"][number], length: string): string {
  return task.status === "lost"
    ? t.lostAfter(task.task, task.attempt, length, task.worker_id ?? "?")
    : t.attemptFor(task.task, task.attempt, stateWord(task.status), length);
}

export function tasksOf(step: StepBar, now: number): Bar[] {
  return step.tasks.flatMap((task, at) => {
    const from = seconds(task.started_at) ?? seconds(task.finished_at);
    if (from === null) return [];
    const to = seconds(task.finished_at);
    const parts: Part[] = [
      {
        kind: "running",
        from,
        to,
        state: task.status,
        title: titleOf(task, span((to ?? now) - from)),
      },
    ];
    const next = step.tasks[at + 1];
    const isRetried = to !== null && task.do === "retry";
    if (isRetried) {
      const again = seconds(next?.started_at ?? null) ?? Math.min(now, to + task.delay_s);
      if (again - to > NOTICEABLE_S)
        parts.push({
          kind: "backoff",
          from: to,
          to: again,
          state: "paused",
          title: t.waitsBeforeAttempt(span(again - to), task.attempt + 1),
        });
    }
    const end = parts.at(-1)!.to;
    return [
      {
        id: `${step.step_run_id}/${at}`,
        label: `${task.task}${task.attempt > 1 ? ` #${task.attempt}` : ""}${task.status === "lost" ? t.lostStart : task.start > 1 ? t.startNumber(task.start) : ""}`,
        step: step.step,
        depth: 1,
        from,
        to: end,
        state: task.status,
        parts,
      },
    ];
  });
}

/** What runs beside the tokens, as a row of its own. */
export function sideRunBar(sideRun: SideRun, now: number): Bar {
  const { sign, word } = KINDS[sideRun.kind];
  const parts: Part[] = [];
  if (sideRun.begun === null || sideRun.begun - sideRun.from > NOTICEABLE_S)
    parts.push({
      kind: "queued",
      from: sideRun.from,
      to: sideRun.begun,
      state: "queued",
      title: t.wordQueuedFor(word, span((sideRun.begun ?? now) - sideRun.from)),
    });
  if (sideRun.begun !== null)
    parts.push({
      kind: "running",
      from: sideRun.begun,
      to: sideRun.to,
      state: sideRun.state,
      title: `${t.wordStateFor(word, stateWord(sideRun.state), span((sideRun.to ?? now) - sideRun.begun))}${sideRun.note ? `: ${sideRun.note}` : ""}`,
    });
  const label =
    sideRun.kind === "compensation"
      ? t.undo(`${sideRun.step}${sideRun.index >= 0 ? ` [${sideRun.index}]` : ""}`)
      : sideRun.kind === "handler"
        ? sideRun.label
        : sideRun.kind === "hook"
          ? t.hookOf(sideRun.step)
          : t.taskBeside(sideRun.label, sideRun.step);
  return {
    id: sideRun.id,
    label,
    step: sideRun.step,
    depth: 0,
    sign,
    from: sideRun.from,
    to: sideRun.to,
    state: sideRun.state,
    parts,
  };
}

/** A pause of the execution, as a row of its own: who paused it, until when, and who resumed it. */
export function pauseBar(pause: Pause, now: number): Bar {
  const [from, to] = [seconds(pause.since)!, seconds(pause.until ?? null)];
  const label = t.pausedBy(pause.by ?? "");
  const ends = pause.resumed_by ? `, ${t.resumedBy(pause.resumed_by)}` : "";
  const title = `${label}, ${span((to ?? now) - from)}${pause.reason ? `: ${pause.reason}` : ""}${ends}`;
  return {
    id: `pause/${pause.since}`,
    label: `${label}${ends}`,
    step: "",
    depth: 0,
    sign: SIGNS.paused,
    from,
    to,
    state: "paused",
    parts: [{ kind: "backoff", from, to, state: "paused", title }],
  };
}

/** Rows in the order they began; what belongs to a step run stays below it. */
export function ordered(groups: Bar[][]): Bar[] {
  return groups.sort((a, b) => a[0]!.from - b[0]!.from).flat();
}

import { area, type Value } from "./area";

export const t = area("words", {
  // words.ts: how moments and spans are written
  now: "now",
  ago: (span: Value) => `${span} ago`,
  ahead: (span: Value) => `in ${span}`,
  milliseconds: (number: Value) => `${number} ms`,
  seconds: (number: Value) => `${number} s`,
  minutes: (number: Value) => `${number} min`,
  hours: (number: Value) => `${number} h`,
  days: (number: Value) => `${number} d`,
  failedOf: (failed: Value, total: Value) => `${failed} of ${total} failed`,
  unrun: (items: Value) => `, ${items} not run`,
  passedOver: (items: Value) => `${items} passed over after an error`,
  stuck: "stuck",
  answer: (text: Value) => `answer: ${text}`,
  place: (file: Value, line: Value, code: Value) => `${file}, line ${line}: ${code}`,
  warnings: (many: number, line: Value, message: Value) =>
    `, with ${many} ${many === 1 ? "warning" : "warnings"}: line ${line}: ${message}`,

  // client.ts and session.svelte.ts
  theServerCannotBeReached: "The server cannot be reached",
  itCannotBeReached: "The server cannot be reached.",
  nothingIsConfirmed:
    "No answer from the server: this was not sent, or not confirmed. Try again when the server is back.",
  httpStatus: (status: Value) => `HTTP ${status}`,
  yourSessionHasEnded: "Your session has ended. Sign in again.",
  signInAs: (subject: Value) => `Sign in as ${subject}`,
  thisLinkSignsYouInAs: (subject: Value, role: Value, here: Value) =>
    `The link that you opened signs you in as ${subject} (${role}). You are signed in as ${here}. Only go on if you know who sent it: ${subject} can see what you enter then.`,
  stay: (here: Value) => `Stay ${here}`,
  yourTokenExpired: (at: Value) => `Your token expired at ${at}. Sign in again.`,

  // Executions that are no runs of a registered playbook
  trials: { draft: "draft", "step-test": "step test" } as Record<string, string>,
  trialMeans: {
    draft: "It ran a text that is not registered",
    "step-test": "It ran one step alone, to test it",
  } as Record<string, string>,

  // States of executions, steps, tasks, tokens and side runs, as the API names them
  states: {
    running: "running",
    completed: "completed",
    failed: "failed",
    paused: "paused",
    waiting: "waiting",
    cancelled: "cancelled",
    queued: "queued",
    done: "done",
    open: "open",
    claimed: "claimed",
    withdrawn: "withdrawn",
    scheduled: "queued",
    ready: "ready",
    leased: "leased",
    started: "started",
    skipped: "skipped",
    held: "held",
    looping: "looping",
    pending: "pending",
    retrying: "retrying",
    unknown: "unknown",
    retry: "retry",
    lost: "lost",
    error: "error",
  } as Record<string, string>,
});

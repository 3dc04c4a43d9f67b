// What changes on the server, as the screens of this page hear of it: rows of executions as they change. Nothing is
// polled: a screen that shows something else (tasks, waits, workers) asks again when something has changed, and when the
// server says that it is still there, which it does every few seconds while nothing changes.

import { address } from "./client";
import { StreamHub, type HubMessage, type PageMessage } from "./stream";
import type { ExecutionRow } from "./shapes";

export interface Listener {
  /** The execution whose rows, and those of its children, it wants to hear; without it those of all. */
  about?: string;
  row?: (row: ExecutionRow) => void;
  /** Tasks of the execution it is about have printed something. */
  output?: () => void;
  /** Something changed; this page may not receive what. */
  changed?: () => void;
  /** What came before is not known: ask for everything again. */
  reset?: () => void;
}

/** Whether the page hears of changes. `losses` counts how often it was told that it does not. */
export const connection = $state<{ state: "connecting" | "live" | "lost" | "refused"; losses: number }>({
  state: "connecting",
  losses: 0,
});

interface Hub {
  tell(message: PageMessage): void;
  isShared: boolean;
}

const listeners = new Set<Listener>();
let hub: Hub | null = null;

function connectedHub(): Hub {
  const isShared = typeof SharedWorker === "function";
  let port: MessagePort;
  if (isShared) {
    const worker = new SharedWorker(new URL("./stream_worker.ts", import.meta.url), { type: "module", name: "noetl" });
    port = worker.port;
  } else {
    const channel = new MessageChannel();
    new StreamHub().join(channel.port2);
    port = channel.port1;
  }
  port.onmessage = ({ data }: MessageEvent<HubMessage>) => hear(data);
  return { tell: (message) => port.postMessage(message), isShared };
}

function hear(message: HubMessage): void {
  if (message.kind === "state") {
    if (message.state !== "live") connection.losses += 1;
    connection.state = message.state;
    // No listener has received what changed between a screen's request and now.
    if (message.state === "live") for (const one of [...listeners]) one.reset?.();
    return;
  }
  for (const one of [...listeners]) {
    if (message.kind === "reset") one.reset?.();
    else if (message.kind === "still") one.changed?.();
    else if (message.kind === "output") void (one.about && message.ids.includes(one.about) && one.output?.());
    else pass(one, message.rows);
  }
}

function pass(listener: Listener, rows: ExecutionRow[]): void {
  listener.changed?.();
  if (!listener.row) return;
  for (const row of rows) {
    const { about } = listener;
    if (!about || row.execution_id === about || row.parent_execution_id === about) listener.row(row);
  }
}

/** Tell the hub what this page wants now. */
function announce(): void {
  hub ??= connectedHub();
  // A page without a shared connection holds one only while it is seen: hidden pages would use up what the browser allows.
  const isAway = !hub.isShared && document.visibilityState === "hidden";
  if (!listeners.size || isAway) {
    hub.tell({ kind: "unsubscribe" });
    return;
  }
  const wanting = [...listeners].filter((one) => one.row);
  const about = wanting.some((one) => !one.about) ? null : [...new Set(wanting.map((one) => one.about!))];
  hub.tell({ kind: "subscribe", url: address("stream"), about });
}

/** Hear of changes for as long as somebody looks; gives how to stop. */
export function subscribe(listener: Listener): () => void {
  listeners.add(listener);
  announce();
  return () => {
    listeners.delete(listener);
    setTimeout(announce, 0); // the next screen comes in the same breath: nothing is disconnected for it
  };
}

/** Connect anew: somebody else looks now. */
export function reconnect(): void {
  hub?.tell({ kind: "reconnect" });
}

document.addEventListener("visibilitychange", () => void (hub && !hub.isShared && announce()));
// A page that is left receives nothing more; one that comes back from the browser's cache does.
addEventListener("pagehide", () => hub?.tell({ kind: "unsubscribe" }));
addEventListener("pageshow", (event) => void (event.persisted && hub && announce()));

/** Ask again whenever something has changed, at most once in `seconds`; returns a function that stops. A hidden page asks
 * only for what is wanted `whileHidden`. */
export function refreshOnChange(ask: () => unknown, seconds = 1, whileHidden = () => false): () => void {
  let timer = 0;
  const soon = (): void => {
    timer ||= window.setTimeout(() => {
      timer = 0;
      if (document.visibilityState === "visible" || whileHidden()) void ask();
    }, seconds * 1000);
  };
  const onshow = (): void => void (document.visibilityState === "visible" && soon());
  document.addEventListener("visibilitychange", onshow);
  const stop = subscribe({ changed: soon, reset: soon });
  return () => {
    stop();
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", onshow);
  };
}

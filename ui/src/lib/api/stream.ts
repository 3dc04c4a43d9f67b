// Live updates by server-sent events. The browser resumes with Last-Event-ID by itself while the page lives; when the
// server closes a stream for good (401, 404) the browser gives up and we say so.

import { address, type Query } from "./client";

export interface Stream {
  close(): void;
}

export interface Listeners {
  /** Each event with its name, its id and its data. */
  on: (name: string, data: unknown, id: string) => void;
  /** live: connected · lost: trying again · over: nothing more will come. */
  state?: (state: "live" | "lost" | "over") => void;
}

export function listen(path: string, query: Query, names: string[], { on, state }: Listeners): Stream {
  const source = new EventSource(address(path, query));
  source.onopen = () => state?.("live");
  source.onerror = () => state?.(source.readyState === EventSource.CLOSED ? "over" : "lost");
  for (const name of names) {
    source.addEventListener(name, (event) => {
      const message = event as MessageEvent<string>;
      on(name, message.data ? JSON.parse(message.data) : undefined, message.lastEventId);
    });
  }
  return { close: () => source.close() };
}

// The SharedWorker that all pages of this browser share (stream.ts).

import { StreamHub } from "./stream";

const hub = new StreamHub();

addEventListener("connect", (event) => {
  hub.join((event as MessageEvent).ports[0]!);
});

// Rows of the audit log as sentences: "started tests/orders", not "POST /api/executions".

import type { AuditRow } from "./api/shapes";

/** Ways of the API by what somebody does with them; `$1` is the name in the address. The first that fits counts. */
const DEEDS: [string, RegExp, string][] = [
  ["POST", /^\/api\/session$/, "signed in"],
  ["DELETE", /^\/api\/session$/, "signed out"],
  ["POST", /^\/api\/tokens$/, "created a token"],
  ["DELETE", /^\/api\/tokens\/(.+)$/, "revoked the token $1"],
  ["POST", /^\/api\/catalog\?path=(.+)&version=(.+)$/, "registered $1 v$2"],
  ["POST", /^\/api\/executions\?path=(.+)$/, "started $1"],
  ["POST", /^\/api\/catalog$/, "registered a playbook"],
  ["POST", /^\/api\/executions$/, "started an execution"],
  ["POST", /^\/api\/executions\/bulk$/, "steered many executions"],
  ["POST", /^\/api\/executions\/([^/]+)\/pause$/, "paused execution $1"],
  ["POST", /^\/api\/executions\/([^/]+)\/resume$/, "resumed execution $1"],
  ["POST", /^\/api\/executions\/([^/]+)\/cancel$/, "cancelled execution $1"],
  ["POST", /^\/api\/executions\/([^/]+)\/rerun$/, "ran execution $1 again"],
  ["POST", /^\/api\/executions\/([^/]+)\/events$/, "sent an event to execution $1"],
  ["PUT", /^\/api\/executions\/([^/]+)\/limits\/(.+)$/, "limited step $2 of execution $1"],
  ["DELETE", /^\/api\/executions\/([^/]+)\/limits\/(.+)$/, "took back the limit of step $2 of execution $1"],
  ["POST", /^\/api\/demo$/, "ran the demo"],
  ["POST", /^\/api\/messages$/, "sent a message"],
  ["DELETE", /^\/api\/messages(.*)$/, "deleted kept messages"],
  ["POST", /^\/api\/signals$/, "sent a signal"],
  ["POST", /^\/api\/timers\/(.+)\/cancel$/, "cancelled the timer $1"],
  ["PUT", /^\/api\/limits\/(.+)$/, "limited the playbook $1"],
  ["DELETE", /^\/api\/limits\/(.+)$/, "took back the limit of the playbook $1"],
  ["POST", /^\/api\/schedules\/(.+)\/pause$/, "paused the schedule of $1"],
  ["POST", /^\/api\/schedules\/(.+)\/resume$/, "resumed the schedule of $1"],
  ["POST", /^\/api\/schedules\/(.+)\/backfill$/, "started a backfill of $1"],
  ["POST", /^\/api\/tasks\/([^/]+)\/claim$/, "claimed the task $1"],
  ["POST", /^\/api\/tasks\/([^/]+)\/release$/, "released the task $1"],
  ["POST", /^\/api\/tasks\/([^/]+)\/complete$/, "completed the task $1"],
  ["PUT", /^\/api\/credentials\/(.+)$/, "stored the credential $1"],
  ["DELETE", /^\/api\/credentials\/(.+)$/, "deleted the credential $1"],
  ["POST", /^\/api\/credentials\/rotate$/, "rotated the master key"],
  ["PUT", /^\/api\/pools\/(.+)$/, "limited the pool $1"],
  ["DELETE", /^\/api\/workers\/(.+)$/, "removed the worker $1"],
  ["PUT", /^\/api\/schemas\/(.+)$/, "registered the schema $1"],
  ["POST", /^\/api\/webhooks$/, "created a webhook"],
  ["DELETE", /^\/api\/webhooks\/(.+)$/, "deleted the webhook $1"],
];

/** What somebody did, to be read behind their name; one that was refused tried to. */
export function deedOf(row: Pick<AuditRow, "action" | "object" | "outcome">): string {
  const [method = "", ...rest] = row.action.split(" ");
  const address = row.object.startsWith("/") ? decodeURI(row.object) : rest.join(" ");
  const known = DEEDS.find(([wanted, pattern]) => wanted === method && pattern.test(address));
  const said = known
    ? address.replace(known[1], known[2])
    : row.object && !row.object.startsWith("/")
      ? `${row.action}: ${row.object}`
      : `asked ${method} ${address}`;
  return Number(row.outcome) >= 400 && known ? `was refused: ${said}` : said;
}

const cell = (value: unknown): string => {
  const text = String(value);
  // A sheet would run what begins so as a formula.
  const safe = /^[=+\-@\t]/.test(text) ? `'${text}` : text;
  return `"${safe.replaceAll('"', '""')}"`;
};

/** As a table for other programs. */
export function table(rows: readonly AuditRow[]): string {
  const head = ["seq", "at", "actor", "action", "object", "address", "outcome", "hash"] as const;
  return [head.join(","), ...rows.map((row) => head.map((name) => cell(row[name])).join(","))].join("\r\n");
}

// Rows of the audit log as sentences: "started tests/orders", not "POST /api/executions".

import { t } from "../texts/audit";
import { labelOf, when } from "./words";
import type { AuditRow } from "./api/shapes";

/** Ways of the API by what somebody does with them. The first that fits counts. */
const DEEDS: [string, RegExp, keyof typeof t.deeds][] = [
  ["POST", /^\/api\/session$/, "signedIn"],
  ["DELETE", /^\/api\/session$/, "signedOut"],
  ["POST", /^\/api\/tokens$/, "createdAToken"],
  ["DELETE", /^\/api\/tokens\/(.+)$/, "revokedTheToken"],
  ["POST", /^\/api\/catalog\?path=(.+)&version=(.+)$/, "registeredV"],
  ["POST", /^\/api\/executions\?path=([^&]+)(?:&.*)?$/, "started"],
  ["POST", /^\/api\/catalog$/, "registeredAPlaybook"],
  ["POST", /^\/api\/executions$/, "startedAnExecution"],
  ["POST", /^\/api\/executions\/bulk$/, "steeredManyExecutions"],
  ["POST", /^\/api\/executions\/draft(?:\?.*)?$/, "ranADraft"],
  ["POST", /^\/api\/executions\/step-test(?:\?.*)?$/, "testedAStep"],
  ["POST", /^\/api\/executions\/([^/]+)\/pause$/, "pausedExecution"],
  ["POST", /^\/api\/executions\/([^/]+)\/resume$/, "resumedExecution"],
  ["POST", /^\/api\/executions\/([^/]+)\/cancel$/, "cancelledExecution"],
  ["POST", /^\/api\/executions\/([^/]+)\/rerun$/, "ranExecutionAgain"],
  ["POST", /^\/api\/executions\/([^/]+)\/events$/, "sentAnEventToExecution"],
  ["PUT", /^\/api\/executions\/([^/]+)\/limits\/(.+)$/, "limitedStepOfExecution"],
  ["DELETE", /^\/api\/executions\/([^/]+)\/limits\/(.+)$/, "tookBackTheLimitOfStepOfExecution"],
  ["POST", /^\/api\/demo$/, "ranTheDemo"],
  ["POST", /^\/api\/messages$/, "sentAMessage"],
  ["DELETE", /^\/api\/messages(.*)$/, "deletedKeptMessages"],
  ["POST", /^\/api\/signals$/, "sentASignal"],
  ["POST", /^\/api\/timers\/(.+)\/cancel$/, "cancelledTheTimer"],
  ["PUT", /^\/api\/limits\/(.+)$/, "limitedThePlaybook"],
  ["DELETE", /^\/api\/limits\/(.+)$/, "tookBackTheLimitOfThePlaybook"],
  ["POST", /^\/api\/schedules\/(.+)\/pause$/, "pausedTheScheduleOf"],
  ["POST", /^\/api\/schedules\/(.+)\/resume$/, "resumedTheScheduleOf"],
  ["POST", /^\/api\/schedules\/(.+)\/backfill$/, "startedABackfillOf"],
  ["POST", /^\/api\/tasks\/([^/]+)\/claim$/, "claimedTheTask"],
  ["POST", /^\/api\/tasks\/([^/]+)\/release$/, "releasedTheTask"],
  ["POST", /^\/api\/tasks\/([^/]+)\/complete$/, "completedTheTask"],
  ["POST", /^\/api\/tasks\/([^/]+)\/comment$/, "commentedOnTheTask"],
  ["POST", /^\/api\/triggers$/, "createdATrigger"],
  ["DELETE", /^\/api\/triggers\/([^/]+)$/, "deletedTheTrigger"],
  ["POST", /^\/api\/triggers\/([^/]+)\/pause$/, "pausedTheTrigger"],
  ["POST", /^\/api\/triggers\/([^/]+)\/resume$/, "resumedTheTrigger"],
  ["POST", /^\/api\/triggers\/([^/]+)\/dead-letters\/retry$/, "retriedDeadLettersOfTheTrigger"],
  ["DELETE", /^\/api\/triggers\/([^/]+)\/dead-letters$/, "discardedDeadLettersOfTheTrigger"],
  ["PUT", /^\/api\/notification-rules\/([^/]+)$/, "setTheNotificationRule"],
  ["DELETE", /^\/api\/notification-rules\/([^/]+)$/, "deletedTheNotificationRule"],
  ["POST", /^\/api\/notification-rules\/([^/]+)\/test$/, "testedTheNotificationRule"],
  ["POST", /^\/api\/notifications\/retry$/, "retriedDeadNotifications"],
  ["POST", /^\/api\/notifications\/([^/]+)\/retry$/, "retriedANotification"],
  ["DELETE", /^\/api\/sessions\/(.+)$/, "signedOutABrowser"],
  ["POST", /^\/api\/workers\/(.+)\/drain$/, "drainedTheWorker"],
  ["POST", /^\/api\/workers\/(.+)\/resume$/, "resumedTheWorker"],
  ["PUT", /^\/api\/credentials\/(.+)$/, "storedTheCredential"],
  ["DELETE", /^\/api\/credentials\/(.+)$/, "deletedTheCredential"],
  ["POST", /^\/api\/credentials\/rotate$/, "rotatedTheMasterKey"],
  ["POST", /^\/api\/credentials\/(.+)\/test$/, "testedTheCredential"],
  ["PUT", /^\/api\/pools\/(.+)$/, "limitedThePool"],
  ["DELETE", /^\/api\/workers\/(.+)$/, "removedTheWorker"],
  ["PUT", /^\/api\/schemas\/(.+)$/, "registeredTheSchema"],
  ["POST", /^\/api\/webhooks$/, "createdAWebhook"],
  ["DELETE", /^\/api\/webhooks\/(.+)$/, "deletedTheWebhook"],
];

/** What the server adds to the address: names, roles, times and reasons. */
function detailsOf(object: string): URLSearchParams {
  const at = object.indexOf("?");
  return new URLSearchParams(at < 0 ? "" : object.slice(at + 1));
}

/** Refusals without a token are counted: the server writes how many, since when, why, and what the last one wanted. */
function countedRefusals(row: Pick<AuditRow, "action" | "object">): string | null {
  const many = /^refused (\d+) times$/.exec(row.action)?.[1];
  const found = /^\d+ more since (\S+): (.*), last (.*)$/.exec(row.object);
  return many && found ? t.countedRefusals(Number(many), when(found[1]!), found[2]!, found[3]!) : null;
}

/** What somebody did, to be read behind their name; one that was refused tried to. */
export function deedOf(row: Pick<AuditRow, "action" | "object" | "outcome">): string {
  const counted = countedRefusals(row);
  if (counted) return counted;
  const [method = "", ...rest] = row.action.split(" ");
  const address = row.object.startsWith("/") ? row.object : rest.join(" ");
  const path = address.split("?")[0]!;
  const known = DEEDS.find(([wanted, pattern]) => wanted === method && (pattern.test(address) || pattern.test(path)));
  const said = known
    ? decodeURI((known[1].test(address) ? address : path).replace(known[1], t.deeds[known[2]])) +
      addition(known[2], detailsOf(row.object))
    : row.object && !row.object.startsWith("/")
      ? `${row.action}: ${row.object}`
      : t.asked(method, decodeURI(address));
  return Number(row.outcome) >= 400 && known ? t.wasRefused(said) : said;
}

/** What belongs behind a deed. */
function addition(deed: keyof typeof t.deeds, about: URLSearchParams): string {
  if (deed === "createdAToken" && about.has("subject")) {
    const until = about.get("expires_at");
    return t.tokenFor(about.get("subject")!, about.get("role") ?? "", until ? when(until) : "");
  }
  if (deed === "completedTheTask" && about.has("title"))
    return t.taskTitled(about.get("title")!, labelOf(about.get("decision") ?? ""));
  if (deed === "releasedTheTask" && about.has("title"))
    return t.claimedTaskTitled(about.get("title")!, about.get("claimed_by") ?? "");
  return deed === "cancelledExecution" && about.has("reason") ? `: ${about.get("reason")}` : "";
}

/** The deed in parts, so that the execution or the task it is about can be opened. */
export function partsOf(
  row: Pick<AuditRow, "action" | "object" | "outcome">,
): { text: string; execution?: string; task?: string; playbook?: { path: string; version: string } }[] {
  const deed = deedOf(row);
  const parts = (word: string, link: object): { text: string }[] => {
    const at = deed.indexOf(word);
    return [{ text: deed.slice(0, at) }, { text: word, ...link }, { text: deed.slice(at + word.length) }];
  };
  const found = /\/executions\/([0-9a-f-]{36})/.exec(row.object)?.[1];
  if (found && deed.includes(found)) return parts(found, { execution: found });
  const task = /\/tasks\/([0-9a-f-]{32,36})\//.exec(row.object)?.[1];
  if (task && deed.includes(task)) return parts(task, { task });
  const about = detailsOf(row.object);
  const [path, begun] = ["path", "execution_id"].map((one) => about.get(one));
  if (path && begun && deed.includes(path)) return parts(path, { execution: begun });
  const version = about.get("version");
  const isRegistered = row.object.startsWith("/api/catalog?");
  if (isRegistered && path && version && deed.includes(path)) return parts(path, { playbook: { path, version } });
  return [{ text: deed }];
}

/** How it ended, in a word: the server refuses with 4xx, and failed itself with 5xx. */
export function outcomeOf({ outcome }: Pick<AuditRow, "outcome">): { state: string; word: string } {
  const status = Number(outcome);
  if (!Number.isFinite(status)) return { state: "completed", word: outcome };
  if (status < 400) return { state: "completed", word: t.done };
  return { state: "failed", word: status < 500 ? t.refused : t.failed };
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

// Shapes of the API by the names the UI uses; types.ts is generated from the server's own description (npm run types).

import type { components } from "./types";

export type Shape = components["schemas"];

export type ExecutionRow = Shape["ExecutionView"];
export type ExecutionDetail = Shape["ExecutionDetail"];
export type FailureGroups = Shape["FailureGroups"];
export type ExecutionPage = Shape["ExecutionPage"];
export type PlaybookSteps = Shape["PlaybookSteps"];
export type StepBar = Shape["StepBar"];
export type Pause = Shape["PauseView"];
export type Timeline = Shape["Timeline"];
export type Explanation = Shape["Explanation"];
export type StateView = Shape["StateView"];
export type ProjectionView = Shape["ProjectionView"];
export type StepProjection = Shape["StepProjection"];
export type SideRunProjection = Shape["SideRunProjection"];
export type LoopsView = Shape["LoopsView"];
export type LoopProjection = Shape["LoopProjection"];
export type IterationView = Shape["IterationView"];
export type AttemptView = Shape["AttemptView"];
export type AttemptPage = Shape["AttemptPage"];
export type AttemptInputs = Shape["AttemptInputs"];
export type ValueDifference = Shape["ValueDifference"];
export type ExecutionComparison = Shape["ExecutionComparison"];
export type EventPage = Shape["EventPage"];
export type ResultView = Shape["ResultView"];
export type LogLine = Shape["LogLine"];
export type LogPage = Shape["LogPage"];
export type LiveOutputPage = Shape["LiveOutputPage"];
export type TaskOutput = Shape["TaskOutputView"];
export type Bulk = Shape["Bulk"];
export type Started = Shape["Started"];
export type StartedDraft = Shape["StartedDraft"];
export type StepTestInputs = Shape["StepTestInputs"];
export type RecordedInputs = Shape["RecordedInputs"];
export type Rerun = Shape["Rerun"];
export type Found = Shape["DiagnosticView"];
export type Outline = Shape["Outline"];
export type Inputs = Shape["Inputs"];
export type Input = Shape["WorkloadInput"];
export type Migrated = Shape["Migrated"];
export type StuckExecutions = Shape["StuckExecutions"];
export type Overview = Shape["Overview"];
export type Waiting = Shape["Waiting"];
export type Kept = Shape["StoredMessagePage"];
export type KeptMessage = Shape["StoredMessage"];
export type Trigger = Shape["TriggerView"];
export type Webhook = Shape["WebhookShape"];
export type WebhookList = Shape["WebhookList"];
export type MadeWebhook = Shape["MadeWebhook"];
export type TriggerList = Shape["TriggerList"];
export type DeadLetterList = Shape["DeadLetterList"];
export type ScheduleList = Shape["ScheduleList"];
export type Schedule = Shape["ScheduleView"];
export type ScheduledRun = Shape["ScheduledRun"];
export type Backfilled = Shape["Backfilled"];
export type Workers = Shape["Workers"];
export type Worker = Shape["WorkerView"];
export type PoolList = Shape["PoolList"];
export type Pool = Shape["PoolView"];
export type PlaybookLimits = Shape["PlaybookLimitList"];
export type StepLimit = Shape["StepLimitView"];
export type StepLimits = Shape["StepLimitList"];
export type LimitRate = Shape["LimitRate"];
export type Problem = Shape["ProblemShape"];

/** Fields of a form and tasks are plain data to the API; what they hold is written in docs/human-tasks.md. */
export interface FormField {
  field: string;
  type?: "enum" | "string" | "text" | "number" | "integer" | "boolean" | "date";
  options?: unknown[];
  required?: boolean;
  default?: unknown;
}
export type HumanTask = Omit<Shape["TaskView"], "form"> & { form: FormField[] };
export type TaskPage = { tasks: HumanTask[]; next: string | null };

export type Kind = Shape["KindView"];
export type StepForm = Shape["StepForm"];
export type NewStep = Shape["NewStep"];
export type Template = Shape["TemplateView"];
export type RunHistory = Shape["RunHistory"];
export type NetCost = Shape["NetCost"];
export type StepCost = Shape["StepCost"];
export type Trends = Shape["Trends"];
export type CronTimes = Shape["CronTimes"];
export type Version = Shape["VersionView"];
export type Registered = Shape["Registered"];
export type Credential = Shape["CredentialView"];
export type Credentials = Shape["Credentials"];
export type Token = Shape["AccessTokenView"];
export type TokenList = Shape["AccessTokenList"];
export type MadeToken = Shape["MadeToken"];
export type AuditRow = Shape["AuditShape"];
export type AuditPage = Shape["AuditPage"];
export type Session = Shape["SessionView"];
export type SessionList = Shape["SessionList"];
export type Notice = Shape["NoticeView"];
export type NoticePage = Shape["NoticePage"];
export type RuleList = Shape["NotificationRuleList"];
export type Who = Shape["SessionShape"];

/** What the analyser proved of a net (docs/analysis.md); the API gives it as plain data. */
export interface Move {
  step: string;
  arcs: string[];
  tokens: string[];
  text: string;
}
export interface Certificate {
  verdict: string;
  findings: Found[];
  witnesses: { code: string; path: string; message: string; moves: Move[] }[];
  reasons: { cycle?: string[]; text?: string }[];
}

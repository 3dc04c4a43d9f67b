// What is asked of the server about playbooks.

import type { Schema } from "../editor/completion";
import type { Drawing } from "../net/drawing";
import { get, getText, idempotencyKey, send } from "./client";
import type {
  Certificate,
  Inputs,
  Kind,
  Migrated,
  NetCost,
  NewStep,
  Outline,
  PlaybookLimits,
  PlaybookSteps,
  Registered,
  RunHistory,
  Started,
  RecordedInputs,
  StartedDraft,
  StepTestInputs,
  StepForm,
  Template,
  Version,
} from "./shapes";

const at = (path: string): string => path.split("/").map(encodeURIComponent).join("/");

export const listPlaybooks = () => get<{ playbooks: Version[] }>("catalog", { limit: 1000 });
/** Steps of registered playbooks, by parts of their names. */
export const findSteps = (text: string, limit: number) => get<PlaybookSteps>("steps", { text, limit });
export const listVersions = (path: string) => get<{ versions: Version[] }>(`catalog/${at(path)}/versions`);
export const sourceOf = (path: string, version?: string | number | null) =>
  getText(`catalog/${at(path)}/source`, { version });
export const certificateOf = (path: string, version?: string | number | null) =>
  get<Certificate>(`catalog/${at(path)}/certificate`, { version });
export const inputsOf = (path: string, version?: string | number | null) =>
  get<Inputs>(`catalog/${at(path)}/inputs`, { version });
export const runsOf = (path: string, limit = 50) => get<RunHistory>(`catalog/${at(path)}/runs`, { limit });
export const inputsOfText = (source: string) => send<Inputs>("POST", "inputs", { source });
/** Run a text as it is, once: the catalogue and the schedule stay as they are. */
export const runDraft = (source: string, payload: unknown) =>
  send<StartedDraft>("POST", "executions/draft", { source, payload });
/** Run one step of a text alone; results that are not given are those of `from`, an earlier execution. */
export const testStep = (source: string, step: string, inputs: StepTestInputs, from: string | null) =>
  send<StartedDraft>("POST", "executions/step-test", { source, step, inputs, ...(from ? { execution_id: from } : {}) });
/** What a step read when it last ran in an execution. */
export const getRecordedInputs = (id: string, step: string) =>
  get<RecordedInputs>(`executions/${id}/step-inputs`, { step });
/** 409 with `newest` and `removed` where the newest version is not `opened_from`, or has what the text removes. */
export const register = (source: string, over: { opened_from?: string; may_remove?: boolean } = {}) =>
  send<Registered>("POST", "catalog", { source, ...over });
export const validate = (source: string, signal?: AbortSignal) =>
  send<Outline>("POST", "validate", { source }, { signal });
/** The names that a template at one place of a text can read. */
export const templateNames = async (source: string, offset: number) =>
  (await send<{ names: string[] }>("POST", "names", { source, offset })).names;
export const format = (source: string) => send<{ source: string; changed: boolean }>("POST", "format", { source });
export const migrate = (source: string) => send<Migrated>("POST", "migrate", { source });
export const draw = async (source: string, signal?: AbortSignal) =>
  (await send<{ drawing: Drawing }>("POST", "graph", { source, format: "json" }, { signal })).drawing;
/** What the steps of a text took in recent executions of a playbook; the text may be a draft. */
export const costOf = (source: string, path: string, signal?: AbortSignal) =>
  send<NetCost>("POST", "cost", { source, ...(path ? { path } : {}) }, { signal });
export const analyse = (source: string) => send<Certificate>("POST", "analyze", { source });
export const start = (path: string, body: { version?: string | number; payload: unknown }) =>
  send<Started>("POST", "executions", { path, ...body }, { headers: { "Idempotency-Key": idempotencyKey() } });

export const limitsOf = (path: string) => get<PlaybookLimits>("limits", { path });
export const limitPlaybook = (path: string, asked: { limit: number; reason?: string }) =>
  send("PUT", `limits/${at(path)}`, asked);
export const unlimitPlaybook = (path: string) => send("DELETE", `limits/${at(path)}`);

let schema: Promise<Schema> | null = null;
/** The schema of playbooks, asked for once. */
export const playbookSchema = (): Promise<Schema> => (schema ??= get<Schema>("schema"));

let kinds: Promise<Kind[]> | null = null;
/** The kinds of tools with their inputs, asked for once. */
export const listKinds = (): Promise<Kind[]> =>
  (kinds ??= get<{ kinds: Kind[] }>("kinds").then((found) => found.kinds));
export const listTemplates = async () => (await get<{ templates: Template[] }>("templates")).templates;
export const stepForm = (source: string, step: string, task = 0) =>
  send<StepForm>("POST", "steps/form", { source, step, task });
export const changeStep = async (source: string, form: StepForm) =>
  (await send<{ source: string }>("POST", "steps/change", { source, form })).source;
export const insertStep = async (source: string, step: NewStep) =>
  (await send<{ source: string }>("POST", "steps/insert", { source, step })).source;

// What the server tells of playbooks.

import type { Diagnostic } from "../editor/diagnostics";
import type { Schema } from "../editor/completion";
import type { Drawing } from "../net/drawing";
import { get, getText, send } from "./client";

export interface Version {
  path: string;
  version: number;
  label: string | null;
  catalog_id: string;
  net_hash: string;
  registered_at: string;
}

export interface Found extends Diagnostic {
  path: string;
  witness: string[];
}

export interface Outline {
  dialect: string | null;
  valid: boolean;
  diagnostics: Found[];
  name: string | null;
  path: string | null;
  verdict: string | null;
  steps: { name: string; tasks: { name: string; kind: string }[]; looped: boolean; waits: boolean }[];
}

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

export interface Input {
  name: string;
  type: "string" | "number" | "integer" | "boolean" | "object" | "array" | "null";
  default: unknown;
}

const at = (path: string): string => path.split("/").map(encodeURIComponent).join("/");

export const listPlaybooks = () => get<{ playbooks: Version[] }>("catalog", { limit: 1000 });
export const listVersions = (path: string) => get<{ versions: Version[] }>(`catalog/${at(path)}/versions`);
export const sourceOf = (path: string, version?: string | number | null) => getText(`catalog/${at(path)}/source`, { version });
export const diffOf = (path: string, from: string | number, to: string | number) => getText(`catalog/${at(path)}/diff`, { from, to });
export const certificateOf = (path: string, version?: string | number | null) => get<Certificate>(`catalog/${at(path)}/certificate`, { version });
export const inputsOf = (path: string, version?: string | number | null) => get<{ inputs: Input[]; secrets: string[] }>(`catalog/${at(path)}/inputs`, { version });
export const register = (source: string) => send<Version & { created: boolean; verdict: string }>("POST", "catalog", { source });
export const validate = (source: string, signal?: AbortSignal) => send<Outline>("POST", "validate", { source }, { signal });
export const format = (source: string) => send<{ source: string; changed: boolean }>("POST", "format", { source });
export const migrate = (source: string) => send<{ source: string; notes: { line: number; message: string; way_out: string }[]; blocked: { line: number; message: string; way_out: string }[] }>("POST", "migrate", { source });
export const draw = async (source: string, signal?: AbortSignal) => (await send<{ drawing: Drawing }>("POST", "graph", { source, format: "json" }, { signal })).drawing;
export const analyse = (source: string) => send<Certificate>("POST", "analyze", { source });
export const start = (path: string, body: { version?: string | number; payload: unknown }) =>
  send<{ execution_id: string }>("POST", "executions", { path, ...body }, { headers: { "Idempotency-Key": crypto.randomUUID() } });

let schema: Promise<Schema> | null = null;
/** The schema of playbooks, asked for once. */
export const playbookSchema = (): Promise<Schema> => (schema ??= get<Schema>("schema"));

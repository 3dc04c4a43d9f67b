// The server's API: one way to ask, one kind of error. Rules are the server's; here are only its words.

import { t } from "../../texts/words";
import type { Problem as Shape } from "./shapes";

/** What the server says that is wrong (RFC 9457); only its title and status are always there. */
export type Problem = Partial<Shape> & Pick<Shape, "title" | "status">;

/** What is wrong with one field of a form. */
export interface FieldProblem {
  field: string;
  found: string;
  allowed: string;
}

/** What the server refused, in its own words. */
export class ApiError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail ?? problem.title);
    this.name = "ApiError";
  }

  get status(): number {
    return this.problem.status;
  }

  /** The fields of a form that do not fit; none where the problem is another. */
  get fields(): FieldProblem[] {
    return (this.problem.errors ?? []).filter(
      (one): one is Record<string, unknown> & FieldProblem => typeof one.field === "string",
    );
  }
}

/** The server was not reached. A banner above every screen says so, and what a screen knows already stays. */
export const isAway = (problem: unknown): boolean => problem instanceof ApiError && problem.status === 0;

export const apiBase = new URL("api/", document.baseURI).href;

let csrf = "";

/** Sent with everything that changes something: a page of somebody else cannot know it. */
export function rememberCsrf(token: string): void {
  csrf = token;
}

let signedOut: (() => string) | null = null;

/** What is done, and said, when the server no longer knows whoever is signed in. */
export function onSignedOut(told: () => string): void {
  signedOut = told;
}

export type Query = Record<string, string | number | boolean | undefined | null>;

export function address(path: string, query: Query = {}): string {
  const url = new URL(path.replace(/^\//, ""), apiBase);
  for (const [key, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") url.searchParams.set(key, String(value));
  }
  return url.href;
}

interface Options {
  query?: Query;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  token?: string; // ask as its holder, and not as whoever is signed in
}

async function ask(
  method: string,
  path: string,
  { query, body, headers, signal, token }: Options = {},
): Promise<Response> {
  const asker = csrf;
  const sent: Record<string, string> = { Accept: "application/json", ...headers };
  if (method !== "GET" && csrf) sent["Noetl-CSRF"] = csrf;
  if (token) sent.authorization = ["bearer", token].join(" ");
  const isText = typeof body === "string";
  if (body !== undefined && !sent["Content-Type"]) sent["Content-Type"] = isText ? "text/yaml" : "application/json";
  let answer: Response;
  try {
    answer = await fetch(address(path, query), {
      method,
      headers: sent,
      body: body === undefined ? undefined : isText ? (body as string) : JSON.stringify(body),
      credentials: token ? "omit" : "same-origin",
      signal,
    });
  } catch (cause) {
    if ((cause as Error).name === "AbortError") throw cause;
    throw new ApiError({
      title: t.theServerCannotBeReached,
      status: 0,
      detail: method === "GET" ? t.itCannotBeReached : t.nothingIsConfirmed,
    });
  }
  if (answer.ok) return answer;
  const problem = await problemOf(answer);
  // An answer to what another session asked says nothing about this one; `session` itself asks whether there is one.
  const isOver = answer.status === 401 && path !== "session" && csrf !== "" && asker === csrf;
  throw new ApiError(isOver && signedOut ? { ...problem, detail: signedOut() } : problem);
}

async function problemOf(answer: Response): Promise<Problem> {
  try {
    const body = (await answer.json()) as Problem;
    if (typeof body.title === "string") return { ...body, status: answer.status };
  } catch {
    // not a problem document: the status has to do
  }
  return { title: answer.statusText || t.httpStatus(answer.status), status: answer.status };
}

/** A word of its own for one request, so that repeating it does nothing twice. `crypto.randomUUID` needs TLS. */
export function idempotencyKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export async function get<T>(path: string, query?: Query, signal?: AbortSignal): Promise<T> {
  return (await ask("GET", path, { query, signal })).json() as Promise<T>;
}

/** What the holder of a token gets, without a session. */
export async function getAs<T>(token: string, path: string): Promise<T> {
  return (await ask("GET", path, { token })).json() as Promise<T>;
}

export async function getText(path: string, query?: Query): Promise<string> {
  return (await ask("GET", path, { query, headers: { Accept: "*/*" } })).text();
}

export async function send<T>(
  method: "POST" | "PUT" | "DELETE" | "PATCH",
  path: string,
  body?: unknown,
  options: Omit<Options, "body"> = {},
): Promise<T> {
  const answer = await ask(method, path, { ...options, body });
  const text = await answer.text();
  return (text ? JSON.parse(text) : undefined) as T;
}

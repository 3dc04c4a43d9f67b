// Who is looking. The token is exchanged for a cookie that scripts cannot read; only the CSRF word stays here.

import { ApiError, get, rememberCsrf, send } from "../api/client";
import { reconnect } from "../api/live.svelte";
import { t } from "../../texts/words";
import type { Who } from "../api/shapes";

export const session = $state<{ who: Who | null; known: boolean; problem: string }>({
  who: null,
  known: false,
  problem: "",
});

function welcome(who: Who, isNew = true): void {
  rememberCsrf(who.csrf ?? "");
  session.who = who;
  session.problem = "";
  if (isNew) reconnect(); // it may have been somebody else's
}

/** Take up the session of this browser; a link that carries a token (`#token=…`) opens one. */
export async function recall(): Promise<void> {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) history.replaceState(null, "", location.pathname + location.search); // it must not stay in the address
  try {
    if (given) await signIn(given);
    else welcome(await get<Who>("session"));
  } catch (problem) {
    if (!(problem instanceof ApiError) || problem.status !== 401) session.problem = (problem as Error).message;
  }
  session.known = true;
}

/** Whether the session still is: without one, the way in is shown. */
export async function checkSession(): Promise<void> {
  try {
    welcome(await get<Who>("session"), false);
  } catch (problem) {
    if (!(problem instanceof ApiError) || problem.status !== 401 || !session.who) return;
    session.problem = t.yourSessionHasEnded;
    session.who = null;
  }
}

export async function signIn(token: string): Promise<void> {
  welcome(await send<Who>("POST", "session", { token }));
}

export async function signOut(): Promise<void> {
  await send("DELETE", "session");
  rememberCsrf("");
  session.who = null;
  reconnect();
}

const ORDER: string[] = ["viewer", "operator", "author", "admin"];

/** Whether to offer something. The server decides all the same. */
export function may(role: Who["role"]): boolean {
  return session.who !== null && ORDER.indexOf(session.who.role) >= ORDER.indexOf(role);
}

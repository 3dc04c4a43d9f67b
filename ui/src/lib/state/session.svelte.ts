// Who is looking. The token is exchanged for a cookie that scripts cannot read; only the CSRF word stays here.

import { ApiError, get, getAs, onSignedOut, rememberCsrf, send } from "../api/client";
import { reconnect } from "../api/live.svelte";
import { when } from "../words";
import { tell } from "./dialogs.svelte";
import { ask } from "./questions.svelte";
import { dropTaskDrafts } from "./task_drafts";
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
  endWithToken();
  if (isNew) reconnect(); // it may have been somebody else's
}

const LONGEST_TIMER_MS = 2 ** 31 - 1;
const CLOCKS_DIFFER_MS = 5000; // by which the clock of this browser may be behind the server's
let ending: ReturnType<typeof setTimeout> | undefined;

/** A page that nobody touches says that its token has expired, too. */
function endWithToken(): void {
  clearTimeout(ending);
  const left = Date.parse(session.who?.token_expires_at ?? "") - Date.now() + 500;
  if (left < LONGEST_TIMER_MS) ending = setTimeout(() => void checkSession(), Math.max(left, CLOCKS_DIFFER_MS));
}

const WARNING_MS = 7 * 86_400_000;
/** Whether to speak of the end of this token: it is less than a week away. */
export const expiresSoon = (): boolean => Date.parse(session.who?.token_expires_at ?? "") - Date.now() < WARNING_MS;

/** Show the way in, and say why. */
function leave(): string {
  const expiry = session.who?.token_expires_at;
  const isExpired = expiry && Date.parse(expiry) < Date.now() + CLOCKS_DIFFER_MS;
  session.problem = isExpired ? t.yourTokenExpired(when(expiry)) : t.yourSessionHasEnded;
  session.who = null;
  clearTimeout(ending);
  return session.problem;
}
onSignedOut(leave);

/** Take up the session of this browser; a link that carries a token (`#token=…`) opens one. */
export async function recall(): Promise<void> {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) history.replaceState(null, "", location.pathname + location.search); // it must not stay in the address
  try {
    if (!given) welcome(await get<Who>("session"));
    else if (!(await staysSignedIn(given))) await signIn(given);
  } catch (problem) {
    if (!(problem instanceof ApiError) || problem.status !== 401) session.problem = (problem as Error).message;
  }
  session.known = true;
}

/** Whether the person who is signed in stays so, because the token is somebody else's: a link of a stranger must not sign
 * them in as the stranger, who would see what they enter then. They are asked, and sign in as the other if they agree. */
async function staysSignedIn(token: string): Promise<boolean> {
  const here = await get<Who>("session").catch(() => null);
  if (!here) return false;
  try {
    const other = await getAs<Who>(token, "session");
    if (other.subject === here.subject) return false;
    void ask({
      title: t.signInAs(other.subject),
      text: t.thisLinkSignsYouInAs(other.subject, other.role, here.subject),
      verb: t.signInAs(other.subject),
      leave: t.stay(here.subject),
      danger: true,
      act: () => signIn(token),
    });
  } catch (problem) {
    tell((problem as Error).message, "bad");
  }
  welcome(here);
  return true;
}

/** Whether the session still is: without one, the way in is shown. */
export async function checkSession(): Promise<void> {
  try {
    welcome(await get<Who>("session"), false);
  } catch (problem) {
    if (!(problem instanceof ApiError) || problem.status !== 401 || !session.who) return;
    leave();
  }
}

export async function signIn(token: string): Promise<void> {
  welcome(await send<Who>("POST", "session", { token }));
}

export async function signOut(): Promise<void> {
  await send("DELETE", "session");
  rememberCsrf("");
  dropTaskDrafts();
  clearTimeout(ending);
  session.who = null;
  reconnect();
}

const ORDER: string[] = ["viewer", "operator", "author", "admin"];

/** Whether to offer something. The server decides all the same. */
export function may(role: Who["role"]): boolean {
  return session.who !== null && ORDER.indexOf(session.who.role) >= ORDER.indexOf(role);
}

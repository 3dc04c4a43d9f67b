// Whether the server has another version of this page by now. The name of a page's first script is made from what is in
// it and all that it loads, so a page whose script has another name is another version.

export const version = $state({ isOld: false });

const SCRIPT = /<script[^>]*\ssrc="([^"]+)"/;
const nameOf = (address: string): string => address.split("/").at(-1) ?? "";

const KEY = "noetl.reloaded";
const REST_MS = 30_000;

/** Whether the page may load itself anew: not twice in a short time, or a server that lacks a file has it do so forever. */
export function mayReload(now = Date.now()): boolean {
  try {
    if (now - Number(sessionStorage.getItem(KEY)) < REST_MS) return false;
    sessionStorage.setItem(KEY, String(now));
    return true;
  } catch {
    return false; // without storage the time of the last reload is unknown
  }
}

/** Ask the server for its page. Throws when it cannot be reached. */
export async function checkVersion(): Promise<void> {
  const own = document.querySelector<HTMLScriptElement>('script[type="module"][src]');
  const answer = await fetch(document.baseURI, { cache: "no-store", headers: { Accept: "text/html" } });
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  const found = SCRIPT.exec(await answer.text())?.[1];
  if (own && found && nameOf(found) !== nameOf(own.src)) version.isOld = true;
}

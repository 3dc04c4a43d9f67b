// The same start from a terminal: as a command line, and as a request.

export interface Line {
  word: string;
  text: string;
}

/** One argument of a POSIX shell, whatever is in it. */
export function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

export function sameElsewhere(
  path: string,
  payload: Record<string, unknown>,
  version: string | null,
  base = document.baseURI,
): Line[] {
  const server = new URL(".", base).href.replace(/\/$/, "");
  const inputs = Object.keys(payload).length ? ` --payload ${quoted(JSON.stringify(payload))}` : "";
  const body = JSON.stringify({ path, ...(version ? { version } : {}), payload });
  return [
    {
      word: "CLI",
      text: `noetl run ${quoted(path)}${version ? ` --version ${quoted(version)}` : ""}${inputs} --server ${quoted(server)}`,
    },
    {
      word: "curl",
      text: `curl -X POST ${quoted(`${server}/api/executions`)} -H "Authorization: Bearer $NOETL_TOKEN" -H 'Content-Type: application/json' -d ${quoted(body)}`,
    },
  ];
}

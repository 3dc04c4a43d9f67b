// Text that was typed and not registered, kept in this browser until it is: going elsewhere loses nothing.

const key = (path: string): string => `noetl.draft.${path}`;

export function keepDraft(path: string, text: string): void {
  try {
    localStorage.setItem(key(path), text);
  } catch {
    // a browser may forbid storage, or have no room
  }
}

export function dropDraft(path: string): void {
  try {
    localStorage.removeItem(key(path));
  } catch {
    // see above
  }
}

/** What was left of it, unless that is what is registered. */
export function draftOf(path: string, registered: string): string {
  try {
    const left = localStorage.getItem(key(path)) ?? "";
    return left === registered ? "" : left;
  } catch {
    return "";
  }
}

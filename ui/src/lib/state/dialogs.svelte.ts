// What is open above the page, and short notices that go by themselves.

export const dialogs = $state({ keys: false });

export interface Notice {
  id: number;
  kind: "good" | "bad";
  text: string;
}

export const notices = $state<Notice[]>([]);
let last = 0;

export function tell(text: string, kind: Notice["kind"] = "good"): void {
  const id = ++last;
  notices.push({ id, kind, text });
  setTimeout(() => dismiss(id), kind === "good" ? 4000 : 12_000);
}

export function dismiss(id: number): void {
  const at = notices.findIndex((one) => one.id === id);
  if (at >= 0) notices.splice(at, 1);
}

/** Do something the server may refuse; say what became of it. True when it was done. */
export async function attempt(action: () => Promise<unknown>, done?: string): Promise<boolean> {
  try {
    await action();
    if (done) tell(done);
    return true;
  } catch (problem) {
    tell((problem as Error).message, "bad");
    return false;
  }
}

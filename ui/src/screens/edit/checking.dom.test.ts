import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { session } from "../../lib/state/session.svelte";
import { TextCheck } from "./checking.svelte";

const DRAWING = { boxes: [] };

/** A server on which texts with "broken" have errors, and those with "stuck" a net that the proofs refuse. */
function serve(): string[] {
  const asked: string[] = [];
  vi.stubGlobal("fetch", async (url: string, { body }: { body?: string }) => {
    const path = new URL(url).pathname.replace("/api/", "");
    const source = body ? (JSON.parse(body) as { source: string }).source : "";
    if (path !== "schema") asked.push(`${path} ${source}`);
    const isBroken = source.includes("broken");
    const outline = {
      valid: !isBroken && !source.includes("stuck"),
      verdict: isBroken ? null : source.includes("stuck") ? "deadlock" : "sound",
      diagnostics: [],
      steps: [],
    };
    const answer = path === "validate" ? outline : path === "graph" ? { drawing: DRAWING } : {};
    return new Response(JSON.stringify(answer), { status: path === "graph" && isBroken ? 422 : 200 });
  });
  return asked;
}

describe("the check of a text", () => {
  beforeEach(() => {
    session.who = null; // another file may have left somebody signed in, whose credentials would be asked for
    vi.useFakeTimers();
  });
  afterEach(() => void vi.useRealTimers());

  it("asks for the picture of a text that has a net, and not of one with errors", async () => {
    const asked = serve();
    const check = new TextCheck(() => "");
    for (const text of ["whole", "broken", "stuck"]) {
      check.soon(text, () => undefined);
      await vi.runAllTimersAsync();
    }
    expect(asked).toEqual(["validate whole", "graph whole", "validate broken", "validate stuck", "graph stuck"]);
    expect([check.outline?.verdict, check.drawing]).toEqual(["deadlock", DRAWING]);
  });
});

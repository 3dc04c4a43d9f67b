import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { answer, questions } from "./questions.svelte";
import { recall, session } from "./session.svelte";

const ANN = { subject: "ann", role: "admin", human_roles: [], csrf: "of ann", token_expires_at: null };
const MALLORY = { subject: "mallory", role: "operator", human_roles: [], csrf: "of mallory", token_expires_at: null };

/** A server where ann is signed in, if she is, and two tokens are known. */
function serve(isAnnHere: boolean): string[] {
  let here: typeof ANN | null = isAnnHere ? ANN : null;
  const asked: string[] = [];
  const known: Record<string, typeof ANN> = { "of-ann": ANN, "of-mallory": MALLORY };
  vi.stubGlobal("fetch", async (_: string, { method, headers, body, credentials }: Record<string, unknown>) => {
    const bearer = (headers as Record<string, string>).authorization?.replace("bearer ", "");
    asked.push(`${method as string} ${bearer ? "token" : "cookie"} ${credentials as string}`);
    if (method === "POST") here = known[(JSON.parse(body as string) as { token: string }).token] ?? null;
    const who = bearer ? known[bearer] : here;
    return new Response(JSON.stringify(who ?? { title: "no token" }), { status: who ? 200 : 401 });
  });
  return asked;
}

describe("a link with a token", () => {
  beforeEach(() => {
    [session.who, session.known] = [null, false];
    questions.open = null;
  });
  afterEach(() => vi.unstubAllGlobals());

  it("signs in whoever is not signed in", async () => {
    serve(false);
    location.hash = "#token=of-mallory";
    await recall();
    expect(session.who?.subject).toBe("mallory");
    expect(location.hash).toBe("");
  });

  it("signs the same person in again", async () => {
    serve(true);
    location.hash = "#token=of-ann";
    await recall();
    expect(session.who?.subject).toBe("ann");
    expect(questions.open).toBeNull();
  });

  it("asks whoever is signed in as somebody else, without a session of the other", async () => {
    const asked = serve(true);
    location.hash = "#token=of-mallory";
    await recall();
    expect(session.who?.subject).toBe("ann");
    expect(asked).toEqual(["GET cookie same-origin", "GET token omit"]);
    expect(questions.open?.leave).toBe("Stay ann");
    answer(null);
    expect(session.who?.subject).toBe("ann");
  });

  it("signs in the other one when it was asked for", async () => {
    serve(true);
    location.hash = "#token=of-mallory";
    await recall();
    await questions.open?.act?.({});
    expect(session.who?.subject).toBe("mallory");
  });

  it("that is wrong ends no session", async () => {
    serve(true);
    location.hash = "#token=nonsense";
    await recall();
    expect(session.who?.subject).toBe("ann");
  });
});

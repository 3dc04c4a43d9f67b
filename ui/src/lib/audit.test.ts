import { describe, expect, it } from "vitest";
import type { AuditRow } from "./api/shapes";
import openapi from "../../openapi.json";
import { deedOf, outcomeOf, partsOf, table } from "./audit";

const row = (action: string, object: string, outcome = "200"): AuditRow =>
  ({ seq: 1, at: "", actor: "ann", action, object, address: "", outcome, prev_hash: "", hash: "" }) as AuditRow;

describe("the audit log", () => {
  it("says what was done", () => {
    expect(deedOf(row("POST /api/executions/{execution_id}/cancel", "/api/executions/0a1b/cancel"))).toBe(
      "cancelled execution 0a1b",
    );
    expect(deedOf(row("POST /api/executions", "/api/executions?path=etl/orders"))).toBe("started etl/orders");
    expect(deedOf(row("PUT /api/limits/{path:path}", "/api/limits/etl/orders"))).toBe(
      "limited the playbook etl/orders",
    );
    expect(deedOf(row("POST /api/tokens", "/api/tokens", "403"))).toBe("was refused: created a token");
    expect(deedOf(row("GET /api/audit", "/api/audit", "403"))).toBe("requested GET /api/audit");
    expect(deedOf(row("refused 3 times", "3 more since"))).toBe("refused 3 times: 3 more since");
  });

  it("is exported as text that no sheet runs", () => {
    expect(table([row("a", "=1+1")])).toContain(`"'=1+1"`);
    expect(table([row("a", 'say "hi"')])).toContain('"say ""hi"""');
  });
});

describe("each way of the API that changes something", () => {
  // What servers, workers and editors ask for themselves, or what changes nothing, is not in the audit log as a deed.
  const NO_DEED = /^\/(hooks|api\/(analyze|cost|format|graph|inputs|migrate|orders|render|results|steps|validate))\b/;
  const ways = Object.entries(openapi.paths).flatMap(([path, methods]) =>
    ["post", "put", "delete"].filter((one) => one in methods).map((one) => `${one.toUpperCase()} ${path}`),
  );

  it.each(ways.filter((way) => !NO_DEED.test(way.split(" ")[1]!) && way !== "POST /api/workers"))("%s", (way) => {
    const address = way.split(" ")[1]!.replace(/\{\w+\}/g, "name");

    expect(deedOf(row(way, address))).not.toContain("requested");
  });
});

describe("an entry of the audit log", () => {
  const id = "01a1f044-d58a-74a7-91c8-a9705ff41e37";

  it("leads to the execution it is about", () => {
    const parts = partsOf(row("POST", `/api/executions/${id}/pause`));

    expect(parts).toEqual([{ text: "paused execution " }, { text: id, execution: id }, { text: "" }]);
    expect(partsOf(row("POST", "/api/demo"))).toEqual([{ text: "ran the demo" }]);
  });

  it("says in a word how it ended", () => {
    expect(["201", "403", "500", "failed"].map((outcome) => outcomeOf(row("", "", outcome)).word)).toEqual([
      "done",
      "refused",
      "failed",
      "failed",
    ]);
  });
});

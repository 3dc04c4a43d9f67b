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
    expect(
      deedOf(row("refused 1 times", "1 more since 2024-11-19T04:18:16.203188Z: no token, last GET /api/tasks", "401")),
    ).toMatch(/^was refused 1 more time since .* \(no token\); the last request was GET \/api\/tasks$/);
  });

  it("says whose token was made, what was decided, and why a run was cancelled", () => {
    expect(deedOf(row("POST /api/tokens", "/api/tokens?subject=tim&role=operator&token_id=abc"))).toBe(
      "created a token for tim with the role operator, which does not expire",
    );
    const task = "73452184f8ee089c4b12174de4c80e1a";
    const done = row(
      "POST /api/tasks/{task_id}/complete",
      `/api/tasks/${task}/complete?title=Refund 7%25?&decision=reject`,
    );
    expect(deedOf(done)).toBe(`completed the task ${task} “Refund 7%?” with Reject`);
    expect(partsOf(done)[1]).toEqual({ text: task, task });
    const released = `/api/tasks/${task}/release?title=Refund`;
    expect(deedOf(row("POST /api/tasks/{task_id}/release", released))).toBe(`released the task ${task} “Refund”`);
    expect(deedOf(row("POST /api/tasks/{task_id}/release", `${released}&claimed_by=ann`))).toBe(
      `released the task ${task} “Refund”, which ann had claimed`,
    );
    const id = "01a1f044-d58a-74a7-91c8-a9705ff41e37";
    expect(deedOf(row("POST", `/api/executions/${id}/cancel?reason=disk is full`))).toBe(
      `cancelled execution ${id}: disk is full`,
    );
    const started = row("POST", `/api/executions?path=shop/load&execution_id=${id}`);
    expect(deedOf(started)).toBe("started shop/load");
    expect(partsOf(started)[1]).toEqual({ text: "shop/load", execution: id });
    const registered = row("POST /api/catalog", "/api/catalog?path=shop/load&version=3");
    expect(deedOf(registered)).toBe("registered shop/load v3");
    expect(partsOf(registered)[1]).toEqual({ text: "shop/load", playbook: { path: "shop/load", version: "3" } });
  });

  it("is exported as text that no sheet runs", () => {
    expect(table([row("a", "=1+1")])).toContain(`"'=1+1"`);
    expect(table([row("a", 'say "hi"')])).toContain('"say ""hi"""');
  });
});

describe("each way of the API that changes something", () => {
  // What servers, workers and editors ask for themselves, or what changes nothing, is not in the audit log as a deed.
  const NO_DEED =
    /^\/(hooks|api\/(analyze|cost|format|graph|inputs|migrate|names|orders|render|results|steps|validate))\b/;
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

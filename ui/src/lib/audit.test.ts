import { describe, expect, it } from "vitest";
import type { AuditRow } from "./api/shapes";
import { deedOf, table } from "./audit";

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

import { describe, expect, it } from "vitest";
import { templateNames } from "./names";

describe("names that templates read", () => {
  it("are the inputs, variables, iterators and form fields of the text", () => {
    const text = [
      "workload: {",
      "  amount: 5, # in euro",
      "  who: { name: world } }",
      "workflow:",
      "  - step: start",
      "    loop: { in: [1], iterator: order }",
      "    tool:",
      "      kind: noop",
      "      args:",
      "        total: 3",
      "        nested:",
      "          deep: 1",
      "    set_ctx: { seen: true }",
      "  - step: approve",
      "    human_task:",
      "      form:",
      "        - { field: decision, type: enum }",
    ].join("\n");
    expect(templateNames(text)).toEqual([
      "approve",
      "approve.decision",
      "args.nested",
      "args.total",
      "ctx.seen",
      "iter.order",
      "start",
      "workload.amount",
      "workload.who",
    ]);
  });
});

import { CompletionContext } from "@codemirror/autocomplete";
import { EditorState, Text } from "@codemirror/state";
import { describe, expect, it } from "vitest";
import { complete, pathAt, schemasAt, type Schema } from "./completion";

const TEXT = Text.of(
  [
    "workflow:",
    "  - step: start",
    "    tool:",
    "      kind: http",
    "    next:",
    "      arcs:",
    "        - step: end",
    "          ",
  ].slice(),
);

describe("the path of the cursor", () => {
  it("follows from indentation", () => {
    expect(pathAt(TEXT, 4, 6)).toEqual(["workflow", "-", "tool"]);
    expect(pathAt(TEXT, 8, 10)).toEqual(["workflow", "-", "next", "arcs", "-"]);
    expect(pathAt(TEXT, 1, 0)).toEqual([]);
  });
});

describe("completion", () => {
  const schema: Schema = {
    properties: { workflow: { items: { $ref: "#/$defs/step" } } },
    $defs: {
      step: { properties: { step: {}, tool: { items: { $ref: "#/$defs/task" } } } },
      task: {
        properties: { kind: { enum: ["http", "python"] } },
        allOf: [
          { if: { properties: { kind: { const: "http" } }, required: ["kind"] }, then: { $ref: "#/$defs/http" } },
          { if: { properties: { kind: { const: "python" } }, required: ["kind"] }, then: { $ref: "#/$defs/python" } },
        ],
      },
      http: { properties: { kind: {}, url: {}, method: { enum: ["GET", "POST"] } } },
      python: { properties: { kind: {}, code: {} } },
    },
  };
  function offered(lines: string[]): string[] {
    const state = EditorState.create({ doc: lines.join("\n") });
    const found = complete({ schema }, new CompletionContext(state, state.doc.length, true));
    return (found?.options ?? []).map((one) => one.label).sort();
  }

  it("is there in every item of a list, indented or not", () => {
    expect(offered(["workflow:", "  - step: a", "  - step: b", "  - "])).toEqual(["step", "tool"]);
    expect(offered(["workflow:", "  - step: a", "  - step: b", "    t"])).toEqual(["tool"]);
    expect(offered(["workflow:", "- step: a", "- step: b", "  "])).toEqual(["tool"]);
    expect(offered(["workflow:", "- step: a", "- "])).toEqual(["step", "tool"]);
  });

  it("offers in a template what its text gives: inputs, variables, results of steps and fields of forms", () => {
    const text = [
      "workload: { amount: 5 }",
      "workflow:",
      "  - step: ask",
      "    human_task: { form: [{ field: decision }] }",
      "    set_ctx: { seen: true }",
      "  - step: end",
      '    args: { a: "{{ ',
    ];
    const state = EditorState.create({ doc: text.join("\n") });
    const found = complete({ steps: ["ask", "end"] }, new CompletionContext(state, state.doc.length, false));
    const labels = found!.options.map((one) => one.label);
    expect(labels).toEqual(expect.arrayContaining(["workload.amount", "ctx.seen", "ask", "ask.decision"]));
  });

  it("offers the keys and values of the kind that is written, and all while none is", () => {
    const task = ["workflow:", "  - step: a", "    tool:", "      - kind: python", "      - kind: http"];
    expect(offered([...task, "        "])).toEqual(["method", "url"]);
    expect(offered([...task, "        method: "])).toEqual(["GET", "POST"]);
    expect(offered([...task.slice(0, 3), "      - "])).toEqual(["code", "kind", "method", "url"]);
  });
});

describe("the schema at a path", () => {
  const root: Schema = {
    properties: { workflow: { items: { $ref: "#/$defs/step" } } },
    $defs: { step: { properties: { tool: { anyOf: [{ properties: { kind: { enum: ["http", "python"] } } }] } } } },
  };
  it("follows references, lists and choices", () => {
    expect(schemasAt(root, ["workflow", "-", "tool", "kind"]).flatMap((one) => one.enum ?? [])).toEqual([
      "http",
      "python",
    ]);
  });
  it("knows nothing where nothing is said", () => expect(schemasAt(root, ["nowhere", "-"])).toEqual([]));
});

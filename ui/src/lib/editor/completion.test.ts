import { CompletionContext } from "@codemirror/autocomplete";
import { EditorState, Text } from "@codemirror/state";
import { describe, expect, it } from "vitest";
import { complete, pathAt, schemasAt, type Schema, type Words } from "./completion";

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
        properties: {
          kind: {
            enum: ["http", "python"],
            anyOf: [{ const: "http", description: "Calls a URL." }],
            description: "Which tool runs. Required.",
          },
        },
        allOf: [
          { if: { properties: { kind: { const: "http" } }, required: ["kind"] }, then: { $ref: "#/$defs/http" } },
          { if: { properties: { kind: { const: "python" } }, required: ["kind"] }, then: { $ref: "#/$defs/python" } },
        ],
      },
      http: {
        properties: {
          kind: {},
          url: {},
          uri: { deprecated: true },
          method: { enum: ["GET", "get", "POST", "post"] },
        },
      },
      python: { properties: { kind: {}, code: {} } },
    },
  };
  async function options(lines: string[], words: Words = { schema }) {
    const state = EditorState.create({ doc: lines.join("\n") });
    const found = await complete(words, new CompletionContext(state, state.doc.length, true));
    return [...(found?.options ?? [])];
  }
  const offered = async (lines: string[]): Promise<string[]> => (await options(lines)).map((one) => one.label).sort();

  it("offers keys and values within braces, by what stands before in them", async () => {
    const inside = async (line: string, words: Words = { schema }): Promise<string[]> =>
      (await options(["workflow:", "  - step: start", line], words)).map((one) => one.label);
    expect(await inside("    tool: [{ ")).toEqual(["kind"]);
    expect(await inside("    tool: [{ kind: ")).toEqual(["http", "python"]);
    expect(await inside("    tool: [{ kind: http, ")).toEqual(["url", "method"]);
    expect(await inside("    tool: [{ kind: http, method: ")).toEqual(["GET", "POST"]);
    expect(await inside("  - { step: a, tool: [{ kind: python }, { kind: python, co")).toEqual(["code"]);
    expect(await inside("    next: { arcs: [{ step: ", { schema, steps: ["gone"] })).toEqual(["start"]);
    expect(await inside('    tool: [{ kind: http, url: "a, ')).toEqual([]);
  });
  it("offers keys and values within braces over several lines, however they are laid out", async () => {
    const task = { $ref: "#/$defs/task" };
    const step: Schema = { properties: { step: {}, tool: { anyOf: [task, { items: task }] } } };
    const either: Schema = { ...schema, $defs: { ...schema.$defs, step } };
    const inside = async (...lines: string[]): Promise<string[]> =>
      (await options(["workflow:", "  - step: start", ...lines], { schema: either, steps: ["gone"] })).map(
        (one) => one.label,
      );
    expect(await inside("    tool: {", "      ")).toEqual(["kind"]);
    expect(await inside("    tool: {", "      kind: http,", "      ")).toEqual(["url", "method"]);
    expect(await inside("    tool: {", "      kind: http, # calls", "", "      me")).toEqual(["url", "method"]);
    expect(await inside("    tool: {", "      kind: http, url: a, method: ")).toEqual(["GET", "POST"]);
    expect(await inside("    tool: [", "      { kind: python },", "      { kind: http,", "        ")).toEqual([
      "url",
      "method",
    ]);
    expect(await inside("    tool:", "      [", "        { kind: python, ")).toEqual(["code"]);
    expect(await inside("    next: {", "      arcs: [", "        {", "          step: ")).toEqual(["start"]);
    // What is closed, or begins in a text, is around nothing.
    expect(await inside("    tool: {", "      kind: http", "    }", "    ")).toEqual([]);
    expect(
      await inside("    tool:", "      kind: python", "      code: |", "        result = {", "          ki"),
    ).toEqual([]);
    expect(await inside("    args: { a: ", "    tool:", "      kind: http", "      ")).toEqual(["url", "method"]);
  });
  it("counts what stands behind the cursor in the same braces", async () => {
    const at = async (text: string): Promise<string[]> => {
      const doc = ["workflow:", "  - step: start", text].join("\n");
      const state = EditorState.create({ doc: doc.replace("@", "") });
      const found = await complete({ schema }, new CompletionContext(state, doc.indexOf("@"), true));
      return (found?.options ?? []).map((one) => one.label);
    };
    expect(await at("    tool: [{ @, kind: http, url: a }]")).toEqual(["method"]);
    expect(await at("    tool: [{ @")).toEqual(["kind"]);
    expect(await at("    tool: [{ @\n  - { step: b, tool: [{ kind: http }] }")).toEqual(["kind"]);
    expect(await at("    tool: [{ kind: http @ }]")).toEqual([]); // its value is there
  });
  it("offers names in a template that began on a line above", async () => {
    const text = [
      "workload: { amount: 5 }",
      "workflow:",
      "  - step: a",
      "    tool:",
      "      kind: python",
      "      code: |",
    ];
    const labels = async (...lines: string[]): Promise<string[]> => offered([...text, ...lines]);
    expect(await labels("        {{", "        workload.")).toContain("workload.amount");
    expect(await labels("        {{ 1 }}", "        workload.")).not.toContain("workload.amount");
    expect(await labels("        {{ 1", "    args:", "      wo")).not.toContain("workload.amount");
  });
  it("is there in every item of a list, indented or not", async () => {
    expect(await offered(["workflow:", "  - step: a", "  - step: b", "  - "])).toEqual(["step", "tool"]);
    expect(await offered(["workflow:", "  - step: a", "  - step: b", "    t"])).toEqual(["tool"]);
    expect(await offered(["workflow:", "- step: a", "- step: b", "  "])).toEqual(["tool"]);
    expect(await offered(["workflow:", "- step: a", "- "])).toEqual(["step", "tool"]);
  });

  it("offers in a template what its text gives: inputs, variables, results of steps and fields of forms", async () => {
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
    const found = await complete({ steps: ["ask", "end"] }, new CompletionContext(state, state.doc.length, false));
    const labels = found!.options.map((one) => one.label);
    expect(labels).toEqual(expect.arrayContaining(["workload.amount", "ctx.seen", "ask", "ask.decision"]));
  });

  it("offers in a template what the checker lets pass there, where it can tell", async () => {
    const asked: [string, number][] = [];
    const names = (text: string, offset: number): Promise<string[]> => {
      asked.push([text, offset]);
      return Promise.resolve(["workload.url", "execution_id"]);
    };
    const labels = (await options(["a: 🙂", 'b: "{{ wo'], { names })).map((one) => one.label);
    expect(labels).toEqual(["workload.url", "execution_id"]);
    expect(asked).toEqual([['a: 🙂\nb: "{{ wo', 14]]); // code points, as the server counts
  });

  it("says what a key and a kind are for, one choice a spelling", async () => {
    const head = ["workflow:", "  - step: a", "    tool:"];
    expect((await options([...head, "      - "])).map((one) => one.detail)).toEqual(["Which tool runs"]);
    expect((await options([...head, "      - kind: "])).map((one) => [one.label, one.detail])).toEqual([
      ["http", "Calls a URL."],
      ["python", undefined],
    ]);
    expect(await offered([...head, "      - kind: http", "        method: "])).toEqual(["GET", "POST"]);
  });

  it("offers another spelling of a key to whoever types it", async () => {
    const task = ["workflow:", "  - step: a", "    tool:", "      - kind: http"];
    expect(await offered([...task, "        "])).toEqual(["method", "url"]);
    expect(await offered([...task, "        ur"])).toEqual(["method", "uri", "url"]);
  });

  it("begins the first item of a list", async () => {
    expect((await options(["workflow:", "  "])).map((one) => one.apply)).toEqual(["- step: ", "- tool: "]);
  });

  it("offers the keys and values of the kind that is written, and kind alone while none is", async () => {
    const task = ["workflow:", "  - step: a", "    tool:", "      - kind: python", "      - kind: http"];
    expect(await offered([...task, "        "])).toEqual(["method", "url"]);
    expect(await offered([...task, "        method: "])).toEqual(["GET", "POST"]);
    expect(await offered([...task.slice(0, 3), "      - "])).toEqual(["kind"]);
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

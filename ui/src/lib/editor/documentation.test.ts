import { Text } from "@codemirror/state";
import { describe, expect, it } from "vitest";
import type { Schema } from "./completion";
import { documentationAt } from "./documentation";

const KINDS = [
  { const: "http", description: "Calls a URL." },
  { const: "noop", description: "Does nothing." },
];
const schema: Schema = {
  properties: { workflow: { description: "Its steps.", items: { $ref: "#/$defs/step" } } },
  $defs: {
    step: {
      properties: {
        step: { description: "Its name." },
        tool: { anyOf: [{ $ref: "#/$defs/task" }, { items: { $ref: "#/$defs/task" } }] },
      },
    },
    task: {
      properties: { kind: { enum: ["http", "noop"], description: "Which tool.", anyOf: KINDS } },
      allOf: [{ if: { properties: { kind: { const: "http" } }, required: ["kind"] }, then: { $ref: "#/$defs/http" } }],
    },
    http: {
      properties: {
        url: { description: "Where.", anyOf: [{ description: "A template: {{ … }}." }] },
        method: { description: "How.", enum: ["GET"] },
      },
    },
  },
};
const lines = [
  "workflow:",
  "  - step: a",
  "    tool:",
  "      kind: http",
  "      url: x",
  '  - { step: b, tool: { kind: http, url: "{{ a }}" } }',
  "    tool: { kind: http, method: GET }",
];
const at = (line: number, word: string): string | undefined => {
  const column = lines[line - 1]!.indexOf(word);
  return documentationAt(schema, Text.of(lines), line, column)?.text;
};

describe("documentation", () => {
  it("is that of the key at its place", () => {
    expect(at(1, "workflow")).toBe("Its steps.");
    expect(at(2, "step")).toBe("Its name.");
    expect(at(5, "url")).toBe("Where.");
  });
  it("is that of a kind, where the pointer is on the kind", () => {
    expect(at(4, "http")).toBe("Calls a URL.");
  });
  it("of a key is not about the values that it might have", () => {
    expect(at(4, "kind")).toBe("Which tool. Calls a URL.");
    expect(at(7, "kind")).toBe("Which tool. Calls a URL.");
  });
  it("is found in braces too, by what stands beside it", () => {
    expect(at(7, "method")).toBe("How.");
    expect(at(7, "http")).toBe("Calls a URL.");
    expect(documentationAt(schema, Text.of(lines), 7, lines[6]!.indexOf("method"))?.values).toEqual(["GET"]);
  });
  it("is found in braces over several lines", () => {
    const several = [
      "workflow:",
      "  - step: a",
      "    tool: {",
      "      kind: http,",
      "      url: x, method: GET",
      "    }",
      "  - step: b",
      "    tool: [",
      "      { method: GET,",
      "        kind: http }]",
    ];
    const told = (line: number, word: string): string | undefined =>
      documentationAt(schema, Text.of(several), line, several[line - 1]!.indexOf(word))?.text;
    expect(told(4, "kind")).toBe("Which tool. Calls a URL.");
    expect(told(4, "http")).toBe("Calls a URL.");
    expect(told(5, "method")).toBe("How.");
    expect(told(7, "step")).toBe("Its name.");
    expect(told(10, "kind")).toBe("Which tool. Calls a URL.");
  });
  it("is nothing where the schema says nothing", () => {
    expect(documentationAt(schema, Text.of(lines), 5, 12)).toBeNull();
  });
});

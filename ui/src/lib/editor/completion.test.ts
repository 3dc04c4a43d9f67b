import { Text } from "@codemirror/state";
import { describe, expect, it } from "vitest";
import { pathAt, schemasAt, type Schema } from "./completion";

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
  it("is told by indentation", () => {
    expect(pathAt(TEXT, 4, 6)).toEqual(["workflow", "-", "tool"]);
    expect(pathAt(TEXT, 8, 10)).toEqual(["workflow", "-", "next", "arcs", "-"]);
    expect(pathAt(TEXT, 1, 0)).toEqual([]);
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

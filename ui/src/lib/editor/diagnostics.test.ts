import { Text } from "@codemirror/state";
import { describe, expect, it } from "vitest";
import { fixed, offset, underlines, type Diagnostic } from "./diagnostics";

const found: Diagnostic = {
  code: "E_NEXT_REF",
  severity: "error",
  message: 'leads to "aks"',
  hint: 'did you mean "ask"?',
  line: 2,
  column: 9,
  end_line: 2,
  end_column: 12,
  fix: { replacement: "ask", line: 2, column: 9, end_column: 12 },
};

describe("findings in the text", () => {
  it("are put where the server says", () => {
    const [one] = underlines(Text.of(["a: 1", "  step: aks"]), [found]);
    expect(one).toMatchObject({ from: 13, to: 16, severity: "error", source: "E_NEXT_REF" });
    expect(one!.actions![0]!.name).toBe("Replace with ask");
  });
  it("are fixed where their hint names one replacement", () => {
    expect(fixed("a: 1\n  step: aks # note", found.fix!)).toBe("a: 1\n  step: ask # note");
  });
  it("count characters, not halves of them", () => {
    expect(offset(Text.of(["🦆: aks"]), 1, 4)).toBe(4);
    expect(fixed("🦆: aks", { replacement: "ask", line: 1, column: 4, end_column: 7 })).toBe("🦆: ask");
  });
  it("stay inside a text that has become shorter", () => {
    expect(offset(Text.of(["a"]), 9, 9)).toBe(1);
    expect(offset(Text.of(["a"]), 1, 9)).toBe(1);
  });
});

import { ChangeSet, Text } from "@codemirror/state";
import { describe, expect, it } from "vitest";
import { changesOf, fixTitle, offset, underlines, type Diagnostic, type Fix } from "./diagnostics";

const fixOf = (fix: Partial<Fix>): Fix => ({
  replacement: "ask",
  line: 1,
  column: 1,
  end_column: 1,
  end_line: null,
  title: "",
  also: [],
  ...fix,
});
const fixed = (text: string, fix: Fix): string => {
  const document = Text.of(text.split("\n"));
  return ChangeSet.of(changesOf(document, fix), document.length).apply(document).toString();
};
const found: Diagnostic = {
  code: "E_NEXT_REF",
  severity: "error",
  message: 'leads to "aks"',
  hint: 'did you mean "ask"?',
  line: 2,
  column: 9,
  end_line: 2,
  end_column: 12,
  fix: fixOf({ line: 2, column: 9, end_column: 12 }),
};

describe("findings in the text", () => {
  it("are put where the server says", () => {
    const [one] = underlines(Text.of(["a: 1", "  step: aks"]), [found], () => undefined);
    expect(one).toMatchObject({ from: 13, to: 16, severity: "error", source: "E_NEXT_REF" });
    expect(one!.actions![0]!.name).toBe("Replace with ask");
  });
  it("are fixed where their hint names one replacement", () => {
    expect(fixed("a: 1\n  step: aks # note", found.fix!)).toBe("a: 1\n  step: ask # note");
  });
  it("are fixed in several places at once, and lines are taken out", () => {
    const also = [{ replacement: ", when: go", line: 1, column: 11, end_column: 11, end_line: null }];
    const fix = fixOf({ title: "Move it", replacement: "", line: 3, column: 1, end_line: 4, end_column: 1, also });
    expect(fixed("{ step: end }\n- step: end\n  if: go\n  tool: x\n", fix)).toBe(
      "{ step: en, when: god }\n- step: end\n  tool: x\n",
    );
    expect(fixTitle(fix)).toBe("Move it");
  });
  it("count characters, not halves of them", () => {
    expect(offset(Text.of(["🦆: aks"]), 1, 4)).toBe(4);
    expect(fixed("🦆: aks", fixOf({ column: 4, end_column: 7 }))).toBe("🦆: ask");
  });
  it("stay inside a text that has become shorter", () => {
    expect(offset(Text.of(["a"]), 9, 9)).toBe(1);
    expect(offset(Text.of(["a"]), 1, 9)).toBe(1);
  });
});

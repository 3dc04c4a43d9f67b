import { describe, expect, it } from "vitest";
import { pieces, plain } from "./ansi";

describe("colours of programs", () => {
  it("become styles of pieces", () => {
    expect(pieces("a \u001b[1;31mbad\u001b[0m end")).toEqual([
      { text: "a ", style: "" },
      { text: "bad", style: "red bold" },
      { text: " end", style: "" },
    ]);
  });

  it("leave nothing else behind", () => {
    expect(plain("\u001b[2K\u001b[32mok\u001b[39m\n")).toBe("ok\n");
    expect(pieces("\u001b[2Kdone")).toEqual([{ text: "done", style: "" }]);
    expect(pieces("")).toEqual([]);
  });
});

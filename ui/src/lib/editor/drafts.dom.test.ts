import { beforeEach, describe, expect, it, vi } from "vitest";
import { draftOf, dropDraft, keepDraft } from "./drafts";

describe("a draft", () => {
  beforeEach(() => localStorage.clear());

  it("is kept by path until it is dropped", () => {
    keepDraft("a/b", "typed");
    expect(draftOf("a/b", "registered")).toBe("typed");
    expect(draftOf("a/c", "registered")).toBe("");
    dropDraft("a/b");
    expect(draftOf("a/b", "registered")).toBe("");
  });

  it("is none when it is what is registered", () => {
    keepDraft("a/b", "same");
    expect(draftOf("a/b", "same")).toBe("");
  });

  it("is no trouble where the browser keeps nothing", () => {
    const refuse = vi.spyOn(Storage.prototype, "setItem").mockImplementation(() => {
      throw new Error("no room");
    });
    expect(() => keepDraft("a/b", "typed")).not.toThrow();
    refuse.mockRestore();
  });
});

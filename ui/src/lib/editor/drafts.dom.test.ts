import { beforeEach, describe, expect, it, vi } from "vitest";
import { draftOf, draftOfRun, draftsOf, dropDraft, freshId, keepDraft, pathIn } from "./drafts";

const draft = (id: string, path: string, text: string) => ({
  id,
  by: "ann",
  path,
  text,
  openedFrom: path && `${path}@3`,
});

describe("a draft", () => {
  beforeEach(() => localStorage.clear());

  it("is kept until it is dropped, with the version it was made from", () => {
    keepDraft(draft("1", "a/b", "typed"));
    expect(draftsOf("a/b", "registered", "ann").map((one) => [one.text, one.openedFrom])).toEqual([["typed", "a/b@3"]]);
    expect(draftsOf("a/c", "registered", "ann")).toEqual([]);
    dropDraft("1");
    expect(draftsOf("a/b", "registered", "ann")).toEqual([]);
  });

  it("is none when it is what is registered", () => {
    keepDraft(draft("1", "a/b", "same"));
    expect(draftsOf("a/b", "same", "ann")).toEqual([]);
  });

  it("takes the place of no other of the same playbook", () => {
    vi.spyOn(Date, "now").mockReturnValueOnce(1).mockReturnValueOnce(2);
    keepDraft(draft("1", "", "first"));
    keepDraft(draft("2", "", "second"));
    expect(draftsOf("", "", "ann").map((one) => one.text)).toEqual(["second", "first"]);
    expect(freshId()).not.toBe(freshId());
  });

  it("is found by its executions, and keeps them while it is typed in", () => {
    keepDraft(draft("1", "", "first"), "run-1");
    keepDraft(draft("1", "", "first, and more"));
    expect(draftOfRun("run-1", "ann")?.text).toBe("first, and more");
    expect(draftOfRun("run-2", "ann")).toBeNull();
  });

  it("is seen by its author alone", () => {
    keepDraft(draft("1", "a/b", "typed by ann"), "run-1");
    expect(draftsOf("a/b", "", "bob")).toEqual([]);
    expect(draftOf("1", "bob")).toBeNull();
    expect(draftOfRun("run-1", "bob")).toBeNull();
    expect(draftOf("1", "ann")?.text).toBe("typed by ann");
  });

  it("is read as an earlier version kept it", () => {
    localStorage.setItem("noetl.draft.a/b", "typed: before");
    expect(draftsOf("a/b", "", "ann").map((one) => one.text)).toEqual(["typed: before"]);
    expect(draftOf("a/b", "ann")?.path).toBe("a/b");
  });

  it("is no trouble where the browser keeps nothing", () => {
    const refuse = vi.spyOn(Storage.prototype, "setItem").mockImplementation(() => {
      throw new Error("no room");
    });
    expect(() => keepDraft(draft("1", "a/b", "typed"))).not.toThrow();
    refuse.mockRestore();
  });
});

describe("the path that a text gives itself", () => {
  it("is that of its metadata", () => {
    expect(pathIn("kind: Playbook\nmetadata:\n  name: a\n  path: team/a # here\n")).toBe("team/a");
    expect(pathIn('metadata: { name: a, path: "team/a" }\nworkload: { path: other }\n')).toBe("team/a");
    expect(pathIn("kind: Playbook\n")).toBe("");
  });
});

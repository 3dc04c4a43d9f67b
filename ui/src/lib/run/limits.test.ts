import { describe, expect, it, vi } from "vitest";
import { ofPlaybook, ofStep, rateWords } from "./limits";

describe("a rate in words", () => {
  it.each([
    [null, "no limit"],
    [{ limit: 10, per: 1 }, "10 a second"],
    [{ limit: 100, per: 60 }, "100 in 60 seconds"],
    [{ limit: 5, per: "{{ workload.window }}" }, "5 in {{ workload.window }}"],
  ])("%j is said as %s", (rate, said) => expect(rateWords(rate)).toBe(said));
});

describe("the question about a playbook's limit", () => {
  it("takes whole numbers from 1 on and says what else was found", () => {
    const set = vi.fn();
    const { act } = ofPlaybook("a/b", 3, set);
    expect(() => act!({ limit: "0", reason: "" })).toThrow('found "0"');
    expect(() => act!({ limit: "many", reason: "" })).toThrow('found "many"');
    void act!({ limit: "5", reason: " month end " });
    expect(set.mock.calls).toEqual([[{ limit: 5, reason: "month end" }]]);
  });
});

describe("the question about a step's limits", () => {
  it("begins with what is set and leaves to the playbook what is empty", () => {
    const set = vi.fn();
    const { blanks, act } = ofStep("fetch", { limit: 2, rate: { limit: 10, per: 60 } }, set);
    expect(blanks!.map((one) => one.value)).toEqual(["2", "10", "60", undefined]);
    void act!({ limit: "", begin: "", per: "1", reason: "" });
    void act!({ limit: "4", begin: "20", per: "0.5", reason: "" });
    expect(set.mock.calls).toEqual([[{ limit: null, rate: null }], [{ limit: 4, rate: { limit: 20, per: 0.5 } }]]);
  });
});

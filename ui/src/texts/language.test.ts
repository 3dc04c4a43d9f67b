import { afterAll, describe, expect, it, vi } from "vitest";
import type { Language } from "./language";

// Texts that were replaced stay so: these modules are others than those that the tests of a text read.
vi.resetModules();
const { area, locale, speak } = await import("./area");
const { translatorOf } = await import("./language");
const { bracketed } = await import("./pseudo");
afterAll(() => vi.resetModules());

describe("a language", () => {
  it("replaces texts of areas that are loaded, and of those that come later", () => {
    const early = area("early", { none: "Nothing", many: (n: number) => `${n} runs`, states: { paused: "paused" } });
    speak(bracketed);
    const late = area("late", { none: "Nothing" });

    expect([early.none, early.many(2), early.states.paused, late.none]).toEqual([
      "⟦Nothing⟧",
      "⟦2 runs⟧",
      "⟦paused⟧",
      "⟦Nothing⟧",
    ]);
  });

  it("may leave texts out, which stay English, and says how moments are written", () => {
    const german: Language = { home: { yourTasks: "Ihre Aufgaben" } };
    speak(translatorOf(german), "de");
    const home = area("home", { yourTasks: "Your tasks", noFailures: "no failures" });

    expect([home.yourTasks, home.noFailures, locale()]).toEqual(["Ihre Aufgaben", "no failures", "de"]);
  });

  it("cannot make a sentence of a word", () => {
    const texts = area("odd", { none: "Nothing", many: (n: number) => `${n} runs` });
    speak(() => ({ none: () => "?", many: "?", other: "?" }));

    expect([texts.none, texts.many(2), Object.keys(texts)]).toEqual(["Nothing", "2 runs", ["none", "many"]]);
  });
});

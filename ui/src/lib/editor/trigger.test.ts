import { describe, expect, it } from "vitest";
import { withTrigger } from "./trigger";

const TRIGGER = { cron: "0 6 * * 1", timezone: "Europe/Berlin", missed: "none", overlap: "skip" };
const LINE =
  'trigger: { timer: { cron: "0 6 * * 1", spec: { timezone: "Europe/Berlin", missed: none, overlap: skip } } }';

describe("the trigger of a text", () => {
  it("is put before the workflow", () => {
    expect(withTrigger("kind: Playbook\nworkflow:\n  - step: a\n", TRIGGER)).toBe(
      `kind: Playbook\n${LINE}\nworkflow:\n  - step: a\n`,
    );
  });

  it("takes the place of the one that was there, and of nothing else", () => {
    const block = 'trigger:\n  timer:\n    cron: "1 2 * * *"\n    # nightly\n\n# the work\nworkflow: []\n';
    expect(withTrigger(block, TRIGGER)).toBe(`${LINE}\n\n# the work\nworkflow: []\n`);
    expect(withTrigger(`${LINE}\nworkflow: []\n`, { ...TRIGGER, cron: "5 5 * * *" })).toContain('"5 5 * * *"');
  });

  it("is taken out", () => {
    expect(withTrigger(`a: 1\n${LINE}\nworkflow: []`, null)).toBe("a: 1\nworkflow: []");
  });
});

import { describe, expect, it, vi } from "vitest";
import type { Slim } from "./events";
import { Finding } from "./finding.svelte";

const event = (seq: number, type: string): Slim => ({
  seq,
  type,
  at: 0,
  status: "",
  step: `s${seq % 3}`,
  target: "",
  gist: `Event ${seq}`,
});
const LOG = Array.from({ length: 10_000 }, (_, n) => event(n + 1, n % 2 ? "step.done" : "step.started"));

describe("finding events", () => {
  it("shows all of them where nothing is asked for", () => {
    const finding = new Finding(LOG);
    finding.look(10, { step: "", kind: "", text: "" });
    expect(finding.rows).toHaveLength(10);
  });

  it("looks in slices and finds every one that fits, once", async () => {
    vi.useFakeTimers();
    const finding = new Finding(LOG);
    finding.look(10_000, { step: "", kind: "step.done", text: "" });
    expect(finding.rows.length).toBeLessThan(5000);
    await vi.runAllTimersAsync();
    expect(finding.rows).toHaveLength(5000);
    finding.look(10_000, { step: "s1", kind: "", text: "event 10000" });
    await vi.runAllTimersAsync();
    expect(finding.rows.map((one) => one.seq)).toEqual([10_000]);
    vi.useRealTimers();
  });
});

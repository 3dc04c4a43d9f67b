import { beforeEach, describe, expect, it, vi } from "vitest";
import type { Listener } from "../api/live.svelte";
import { Log } from "./log.svelte";

const asked = vi.hoisted(() => ({ get: vi.fn(), listeners: [] as Listener[] }));
vi.mock("../api/client", () => ({ get: asked.get, ApiError: class extends Error {} }));
vi.mock("../api/live.svelte", () => ({
  subscribe: (listener: Listener) => {
    asked.listeners.push(listener);
    return () => undefined;
  },
}));

const page = (from: number, to: number) => ({
  events: Array.from({ length: to - from }, (_, at) => ({ seq: from + at + 1, event_type: "step.done", payload: {} })),
  next: null,
  last_seq: to,
});

describe("the log of an execution", () => {
  beforeEach(() => {
    vi.stubGlobal("document", { addEventListener: vi.fn(), removeEventListener: vi.fn(), visibilityState: "visible" });
    vi.stubGlobal("window", globalThis);
    asked.get.mockReset();
    asked.listeners.length = 0;
  });

  it("reads what it heard of while an older question was under way", async () => {
    let answer: (page: unknown) => void = () => undefined;
    asked.get.mockResolvedValueOnce(page(0, 2));
    const log = new Log("x");
    await vi.waitFor(() => expect(log.events.length).toBe(2));

    asked.get.mockReturnValueOnce(new Promise((resolve) => (answer = resolve)));
    asked.get.mockResolvedValue(page(2, 5));
    asked.listeners[0]!.reset!();
    asked.listeners[0]!.row!({ execution_id: "x", events: 5 } as never);
    answer(page(2, 2));

    await vi.waitFor(() => expect(log.events.map((one) => one.seq)).toEqual([1, 2, 3, 4, 5]));
    log.close();
  });

  it("asks no more where the server has nothing", async () => {
    asked.get.mockResolvedValueOnce(page(0, 2)).mockResolvedValue(page(2, 2));
    const log = new Log("x");
    await vi.waitFor(() => expect(log.events.length).toBe(2));
    asked.listeners[0]!.row!({ execution_id: "x", events: 5 } as never);
    await vi.waitFor(() => expect(asked.get).toHaveBeenCalledTimes(2));
    await new Promise((over) => setTimeout(over));
    expect(asked.get).toHaveBeenCalledTimes(2);
    log.close();
  });
});

import { describe, expect, it, vi } from "vitest";
import { idempotencyKey } from "./client";

describe("the key of a request", () => {
  it("is made on a host without TLS too, and never twice", () => {
    const { getRandomValues } = crypto;
    vi.stubGlobal("crypto", { getRandomValues: getRandomValues.bind(crypto) }); // as browsers have it there
    const keys = new Set(Array.from({ length: 100 }, idempotencyKey));
    vi.unstubAllGlobals();
    expect(keys.size).toBe(100);
    expect([...keys].every((key) => /^[0-9a-f]{32}$/.test(key))).toBe(true);
  });
});

import { describe, expect, it } from "vitest";
import { match } from "./router.svelte";

describe("a screen", () => {
  it("is found with the parts of its address as they are meant", () => {
    expect(match({ execution: "/executions/:id", playbook: "/playbook/*path" }, "/playbook/team/a%20b")).toEqual({
      name: "playbook",
      params: { path: "team/a b" },
    });
  });

  it("is found for an address that somebody broke", () => {
    expect(match({ execution: "/executions/:id" }, "/executions/%zz")).toEqual({
      name: "execution",
      params: { id: "%zz" },
    });
  });
});

import { describe, expect, it } from "vitest";
import { Asked } from "./asked.svelte";

describe("something asked of the server", () => {
  it("is never replaced by the answer to an older question", async () => {
    const answers: ((text: string | Error) => void)[] = [];
    const asked = new Asked(
      () =>
        new Promise<string>((good, bad) => {
          answers.push((told) => (told instanceof Error ? bad(told) : good(told)));
        }),
    );
    const [second, third] = [asked.again(), asked.again()];
    answers[1]!("new");
    await second;
    answers[0]!("old");
    await new Promise((go) => setTimeout(go));
    expect(asked.value).toBe("new");
    answers[2]!(new Error("away"));
    await third;
    expect([asked.value, asked.error?.message]).toEqual(["new", "away"]);
    const fourth = asked.again();
    answers[3]!("newest");
    await fourth;
    expect([asked.value, asked.error]).toEqual(["newest", null]);
  });
});

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ApiError } from "../api/client";
import { Follower } from "./follower";

describe("following", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("asks one question at a time, and then for what is wanted last", async () => {
    const asked: number[] = [];
    const taken: number[] = [];
    const follower = new Follower<number, number>(
      (wanted) => (asked.push(wanted), new Promise((resolve) => setTimeout(() => resolve(wanted * 10), 50))),
      (answer) => taken.push(answer),
    );
    for (const wanted of [1, 2, 3]) follower.want(wanted);
    await vi.runAllTimersAsync();
    expect([asked, taken]).toEqual([
      [1, 3],
      [10, 30],
    ]);
    follower.close();
  });

  it("asks again after the server was away, and not after it refused", async () => {
    const problem = (status: number): ApiError => new ApiError({ title: "refused", status });
    const answers: (Error | string)[] = [new Error("away"), "here", problem(404)];
    const taken: string[] = [];
    const ask = vi.fn(async () => {
      const answer = answers.shift()!;
      if (answer instanceof Error) throw answer;
      return answer;
    });
    const follower = new Follower<object, string>(ask, (answer) => taken.push(answer));
    follower.want({});
    await vi.runAllTimersAsync();
    expect([ask.mock.calls.length, taken]).toEqual([2, ["here"]]);
    follower.want({});
    await vi.runAllTimersAsync();
    expect(ask.mock.calls.length).toBe(3);
    follower.close();
  });

  it("takes no answer after it is closed", async () => {
    const take = vi.fn();
    const follower = new Follower<number, number>(async (wanted) => wanted, take);
    follower.want(1);
    follower.close();
    await vi.runAllTimersAsync();
    expect(take).not.toHaveBeenCalled();
  });
});

import { flushSync, mount, unmount } from "svelte";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Drawing } from "./drawing";
import Finder from "./Finder.svelte";

const boxes = Array.from({ length: 1000 }, (_, at) => ({ name: `area_${at}`, role: "step", lines: [], marks: [] }));
const drawing = { title: "a", boxes, ways: [] } as unknown as Drawing;
const sought: string[] = [];
const chosen: string[] = [];
let finder: Record<string, unknown>;

beforeEach(() => {
  vi.useFakeTimers();
  finder = mount(Finder, {
    target: document.body,
    props: {
      drawing,
      marks: {},
      chosen: "",
      groups: new Map(),
      closed: new Set<string>(),
      onchoose: (step: string) => chosen.push(step),
      seek: (step: string) => sought.push(step),
      turn: () => undefined,
    },
  });
  flushSync();
});
afterEach(() => {
  void unmount(finder);
  [sought.length, chosen.length] = [0, 0];
  vi.useRealTimers();
});

function type(text: string): void {
  const field = document.querySelector("input")!;
  for (let length = 1; length <= text.length; length++) {
    field.value = text.slice(0, length);
    field.dispatchEvent(new Event("input", { bubbles: true }));
    flushSync();
    vi.advanceTimersByTime(40);
  }
}
const press = (): void => {
  document.querySelector("form")!.dispatchEvent(new Event("submit", { bubbles: true, cancelable: true }));
  flushSync();
};

it("leads to one step for a word that is typed, and not for each of its letters", () => {
  type("area_77");
  expect(sought).toEqual([]);
  expect(document.querySelector("[role=status]")!.textContent).toBe("1 of 11"); // each letter is searched for

  vi.advanceTimersByTime(1000);
  expect(sought).toEqual(["area_77"]);
  expect(chosen).toEqual(["area_77"]);
});

it("leads to the first match at once when Enter comes before, and then to the next", () => {
  type("area_77");
  press();
  expect(sought).toEqual(["area_77"]);
  press();
  vi.advanceTimersByTime(1000);

  expect(sought).toEqual(["area_77", "area_770"]);
});

import { describe, expect, it } from "vitest";
import { byDay, dayOfMoment, otherMonth, weeksOf } from "./calendar";
import { zonedMoment } from "./words";

describe("a month", () => {
  it("is its weeks from Monday on, with the days beside it", () => {
    const weeks = weeksOf("2026-11-17");

    expect(weeks).toHaveLength(6);
    expect(weeks[0]).toEqual(["26", "27", "28", "29", "30", "31"].map((day) => `2026-10-${day}`).concat("2026-11-01"));
    expect(weeks.at(-1)![0]).toBe("2026-11-30");
  });
  it("of February that begins on a Monday has four weeks", () => expect(weeksOf("2027-02-10")).toHaveLength(4));
  it("is followed by another, over the year", () => {
    expect([otherMonth("2026-12-31", 1), otherMonth("2026-01-31", -1)]).toEqual(["2027-01-01", "2025-12-01"]);
  });
});

describe("a moment", () => {
  it.each([
    ["UTC", "2026-11-17"],
    ["Asia/Tokyo", "2026-11-18"],
    ["Pacific/Honolulu", "2026-11-17"],
  ])("falls in %s on %s", (zone, day) => expect(dayOfMoment("2026-11-17T20:00:00Z", zone)).toBe(day));
  it.each(["UTC", "Asia/Tokyo", "Asia/Kathmandu"])(
    "late in the first minute of a day falls on that day in %s",
    (zone) => {
      const midnight = Date.parse(zonedMoment("2026-11-18T00:00", zone));

      expect(dayOfMoment(new Date(midnight + 45_000).toISOString(), zone)).toBe("2026-11-18");
    },
  );
  it("is found with the others of its day", () => {
    const days = byDay(["2026-11-17T20:00:00Z", "2026-11-18T01:00:00Z"], (one) => one, "Asia/Tokyo");

    expect([...days]).toEqual([["2026-11-18", ["2026-11-17T20:00:00Z", "2026-11-18T01:00:00Z"]]]);
  });
});

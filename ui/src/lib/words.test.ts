import { describe, expect, it } from "vitest";
import {
  ago,
  codeOf,
  detailsOf,
  saidHere,
  shortId,
  span,
  traceOf,
  warned,
  when,
  zonedInput,
  zonedMoment,
} from "./words";

describe("spans", () => {
  it.each([
    [0.0123, "12 ms"],
    [1.44, "1.4 s"],
    [42, "42 s"],
    [185, "3 min 05 s"],
    [7800, "2 h 10 min"],
    [350_000, "4 d 1 h"],
    [null, "–"],
  ])("%s s is said as %s", (seconds, said) => expect(span(seconds)).toBe(said));
});

describe("moments", () => {
  it("says how long ago or ahead", () => {
    expect(ago(100, 160_000)).toBe("1 min ago");
    expect(ago(100, 95_000)).toBe("in 5 s");
    expect(ago(0, 86_000_000)).toBe("24 h ago");
    expect(ago(172_700, 0)).toBe("in 48 h");
    expect(ago(200_000, 0)).toBe("in 2 d");
  });

  it("in a sentence of the server are shown as all others", () => {
    const [at, now] = ["2026-11-19T20:44:57Z", new Date("2026-11-01T00:00:00Z")];
    expect(saidHere(`The next timer is due at ${at}.`, now)).toBe(`The next timer is due at ${when(at, now)}.`);
    expect(saidHere("The step load waits.")).toBe("The step load waits.");
  });
});

describe("fields for date and time", () => {
  it.each([
    ["2026-11-17T02:30:00.000Z", "Asia/Tokyo", "2026-11-17T11:30"],
    ["2026-11-17T02:30:00.000Z", "America/New_York", "2026-11-16T21:30"],
    ["2026-07-01T00:00:00.000Z", "Europe/Berlin", "2026-07-01T02:00"],
    ["2026-03-29T01:30:00.000Z", "Europe/Berlin", "2026-03-29T03:30"],
    ["2026-11-17T02:30:00.000Z", "UTC", "2026-11-17T02:30"],
  ])("hold %s in %s as %s, and mean it", (at, zone, text) => {
    expect(zonedInput(at, zone)).toBe(text);
    expect(zonedMoment(text, zone)).toBe(at);
  });
  it("mean nothing when they are empty", () => expect(zonedMoment("", "UTC")).toBe(""));
});

describe("ids", () => {
  it("shows the end, where they differ", () => {
    expect(shortId("01890000-0000-7000-8000-0000deadbeef")).toBe("…deadbeef");
  });
});

describe("tracebacks", () => {
  const trace = [
    "Traceback (most recent call last):",
    '  File "start/load", line 4, in <module>',
    "    check(n)",
    '  File "start/load", line 2, in check',
    "    raise ValueError(n)",
  ];
  const error = { kind: "retry.exhausted", cause: { kind: "py.exception", details: { trace } } };

  it("are those of the error behind another one", () => expect(traceOf(error)).toEqual(trace));
  it("end with the line that broke", () => expect(codeOf(error)).toBe("start/load, line 2: raise ValueError(n)"));
  it("are nothing where there are none", () => {
    expect([traceOf(null), traceOf({ details: { trace: "x" } }), codeOf({ kind: "timeout" })]).toEqual([[], [], ""]);
  });
});

describe("what stands below an error", () => {
  const refused = { kind: "http.status", details: { headers: {}, data: { why: "disk full" } } };
  const raised = { kind: "py.exception", details: { trace: ["Traceback (most recent call last):"] } };

  it.each([
    [refused, ['answer: {"why":"disk full"}']],
    [{ kind: "retry.exhausted", cause: refused }, ['answer: {"why":"disk full"}']],
    [{ kind: "retry.exhausted", cause: raised }, raised.details.trace],
    [{ kind: "http.status", details: { data: "" } }, []],
    [null, []],
  ])("of %j is %j", (error, lines) => expect(detailsOf(error)).toEqual(lines));
  it("is the beginning of a long answer", () => {
    const [line] = detailsOf({ kind: "http.status", details: { data: "x".repeat(9000) } });
    expect(line).toMatch(/^answer: x{2000}…$/);
  });
});

describe("warnings", () => {
  const warning = { severity: "warning", line: 6, message: "not a key" };

  it("names the first and counts them all", () => {
    expect(warned([{ ...warning, severity: "note" }, warning, warning])).toBe(", with 2 warnings: line 6: not a key");
  });
  it("says nothing where there is none", () => expect(warned([])).toBe(""));
});

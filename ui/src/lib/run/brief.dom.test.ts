import { describe, expect, it } from "vitest";
import type { ValuePage } from "../api/values";
import { briefOf, isEmpty } from "./brief";

const page = (value: unknown): ValuePage => {
  const isList = Array.isArray(value);
  const kind = value === null ? "null" : isList ? "array" : typeof value;
  const count = value !== null && typeof value === "object" ? Object.keys(value).length : 1;
  return {
    pointer: "",
    kind,
    count,
    size_bytes: 1,
    is_whole: true,
    value,
    entries: [],
    columns: [],
    text: "",
  } as never;
};
const large = (more: Partial<ValuePage>): ValuePage => ({ ...page(null), is_whole: false, ...more });

describe("a value in a few lines", () => {
  it("is its names and values", () => {
    expect(briefOf(page({ total: 12, note: "paid", ok: true, at: null, tags: ["a", "b"] }))).toEqual({
      lines: [
        { name: "total", text: "12" },
        { name: "note", text: "paid" },
        { name: "ok", text: "true" },
        { name: "at", text: "null" },
        { name: "tags", text: '["a","b"]' },
      ],
      more: 0,
    });
  });

  it("says how many values there are beyond, and how long a list is", () => {
    const many = briefOf(page(Object.fromEntries(Array.from({ length: 9 }, (_, n) => [`k${n}`, n]))));
    expect([many.lines.length, many.more]).toEqual([5, 4]);
    const [rows] = briefOf(page({ rows: Array.from({ length: 60 }, (_, id) => ({ id })) })).lines;
    expect(rows!.text).toMatch(/^60 items: \[\{"id":0\},/);
    expect(rows!.text.length).toBeLessThan(120);
  });

  it("cuts a long text, and one without a name", () => {
    expect(briefOf(page("x".repeat(900))).lines[0]).toEqual({ name: "", text: `${"x".repeat(400)}…` });
    expect(briefOf(page([1, 2])).lines).toEqual([{ name: "", text: "[1,2]" }]);
  });

  it("knows of a large value what the server tells of it", () => {
    const entry = { key: "rows", pointer: "/rows", kind: "array", count: 3000, size_bytes: 144_409, is_whole: false };
    const found = briefOf(
      large({ kind: "object", count: 1, entries: [{ ...entry, preview: '[{"id":0}', value: null }] }),
    );
    expect(found.lines).toEqual([{ name: "rows", text: '3,000 items, 144 kB: [{"id":0}…' }]);
    expect(briefOf(large({ kind: "array", count: 20_000, size_bytes: 900_000 })).lines[0]!.text).toBe(
      "20,000 items, 900 kB",
    );
    expect(briefOf(large({ kind: "string", text: "Dear reader" })).lines[0]!.text).toBe("Dear reader");
  });

  it("names a value that is stored apart by its size", () => {
    const reference = { store: "file", key: "k", checksum: "a".repeat(64), size: 5_000 };
    expect(briefOf(page({ big: reference })).lines[0]!.text).toBe("5.0 kB");
    const table = { ...reference, media_type: "application/vnd.apache.parquet", row_count: 7 };
    expect(briefOf(page(table)).lines[0]!.text).toBe("table of 7 rows");
  });

  it("is empty where there is none", () => {
    expect([isEmpty(page(null)), isEmpty(page({})), isEmpty(page(0)), isEmpty(page(""))]).toEqual([
      true,
      true,
      false,
      false,
    ]);
  });
});

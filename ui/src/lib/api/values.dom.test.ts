import { describe, expect, it } from "vitest";
import { partOf, withStored } from "./values";

describe("values", () => {
  it("are taken apart by JSON pointers", () => {
    const value = { data: { "a/b": [{ n: 1 }, { n: 2 }] } };
    expect(partOf(value, "")).toBe(value);
    expect(partOf(value, "/data/a~1b/1/n")).toBe(2);
  });

  it("are saved as they are where nothing of them is stored apart, with the references of tables", async () => {
    const table = {
      store: "file",
      key: "k",
      checksum: "a".repeat(64),
      size: 1,
      media_type: "application/vnd.apache.parquet",
    };
    const value = { rows: [{ n: 1, list: [] }, null], text: "x", table };
    expect(await withStored(value)).toEqual(value);
  });
});

import { describe, expect, it } from "vitest";
import { columnsOf, csvOf, rowsWith, sortedRows, tablesIn } from "./tables";

const ROWS = [
  { id: 10, shop: "North", total: 9 },
  { id: 9, shop: "south", total: null },
  { id: 100, shop: 'say "hi", all', total: 80 },
];

describe("tables", () => {
  it("are found where lists of rows are, also in a loop with empty results", () => {
    const data = { read: { result: { rows: ROWS } }, convert: { result: [{ n: 1 }, null, { n: 3 }] }, few: [1, 2] };
    expect(tablesIn(data).map(([at, rows]) => [at, rows.length])).toEqual([
      ["read.result.rows", 3],
      ["convert.result", 3],
    ]);
    expect(columnsOf(tablesIn(data)[1]![1])).toEqual(["n"]);
    expect(tablesIn([null, null])).toEqual([]);
    expect(tablesIn({ numbers: Array.from({ length: 12 }, (_, at) => at) })[0]![1][11]).toEqual({ value: 11 });
  });

  it("are searched in every column", () => {
    expect(rowsWith(ROWS, "SOUTH")).toEqual([ROWS[1]]);
    expect(rowsWith(ROWS, " 100 ")).toEqual([ROWS[2]]);
    expect(rowsWith(ROWS, "")).toBe(ROWS);
  });

  it("are sorted with numbers by size and empty cells last", () => {
    const ids = (column: string, isDescending = false) =>
      sortedRows(ROWS, { column, isDescending }).map((row) => row.id);
    expect(ids("id")).toEqual([9, 10, 100]);
    expect(ids("id", true)).toEqual([100, 10, 9]);
    expect(ids("total")).toEqual([10, 100, 9]);
    expect(ids("total", true)).toEqual([100, 10, 9]);
    expect(sortedRows(ROWS, null)).toBe(ROWS);
  });

  it("are written as CSV, with quotes where they are needed and formulas as text", () => {
    const rows = [...ROWS, {}, { id: -1, shop: "=1+1", more: { a: 1 } }];
    expect(csvOf(rows)).toBe(
      'id,shop,total,more\r\n10,North,9,\r\n9,south,,\r\n100,"say ""hi"", all",80,\r\n-1,\'=1+1,,"{""a"":1}"\r\n',
    );
  });

  it("may have columns called like what every object has", () => {
    const rows = JSON.parse('[{"constructor":"b","__proto__":"x"},{"a":1},{"constructor":"a"}]') as typeof ROWS;
    expect(sortedRows(rows, { column: "constructor", isDescending: false })).toEqual([rows[2], rows[0], rows[1]]);
    expect(csvOf(rows)).toBe("constructor,__proto__,a\r\nb,x,\r\n,,1\r\na,,\r\n");
  });

  it("are written as CSV that no sheet of another language runs", () => {
    const rows = ["\uff1d1+1", "\n=1+1", "a;=1+1", "-5"].map((text) => ({ text }));
    expect(csvOf(rows)).toBe('text\r\n\'\uff1d1+1\r\n"\'\n=1+1"\r\n"a;=1+1"\r\n-5\r\n');
  });
});

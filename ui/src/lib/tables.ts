// Lists of rows within data: found, searched, sorted, and written as CSV.

import { referenceIn } from "./api/values";

export type Row = Record<string, unknown>;
export interface Order {
  column: string;
  isDescending: boolean;
}

const DEEPEST = 3;
const MOST_COLUMNS = 40;
const FEWEST_VALUES = 10; // a shorter list of plain values is read as easily in the tree

export const isRow = (one: unknown): one is Row => one !== null && typeof one === "object" && !Array.isArray(one);

/** A list as rows, null where it is none. A loop has null where an item gave nothing: that is an empty row. */
function rowsOf(list: readonly unknown[]): Row[] | null {
  if (list.length < 2) return null;
  if (list.every((one) => one === null || isRow(one)))
    return list.some(isRow) ? list.map((one) => (one ?? {}) as Row) : null;
  const isPlain = list.every((one) => one === null || typeof one !== "object");
  return isPlain && list.length >= FEWEST_VALUES ? list.map((value) => ({ value })) : null;
}

/** The lists of rows in data, by where they are, no deeper than one reads. */
export function tablesIn(data: unknown, at = "", depth = 0): [string, Row[]][] {
  if (Array.isArray(data)) {
    const rows = rowsOf(data);
    return rows ? [[at || "rows", rows]] : [];
  }
  if (!isRow(data) || depth > DEEPEST || referenceIn(data)) return []; // what is stored apart opens in the tree
  return Object.entries(data).flatMap(([key, item]) => tablesIn(item, at ? `${at}.${key}` : key, depth + 1));
}

export const columnsOf = (rows: readonly Row[], most = MOST_COLUMNS): string[] =>
  [...new Set(rows.slice(0, 200).flatMap((row) => Object.keys(row)))].slice(0, most);

/** The value of a row in a column. A column may be called "constructor" or "__proto__", which every object has. */
export const cellOf = (row: Row, column: string): unknown => (Object.hasOwn(row, column) ? row[column] : undefined);

/** A cell as it is shown; empty where there is none. */
export const cellText = (one: unknown): string =>
  one === undefined ? "" : typeof one === "string" ? one : JSON.stringify(one);

/** The rows with `text` in one of their cells, whatever its case. */
export function rowsWith(rows: Row[], text: string): Row[] {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return rows;
  return rows.filter((row) => Object.values(row).some((cell) => cellText(cell).toLowerCase().includes(wanted)));
}

/** Numbers by their size, everything else as text; rows without a value last, in either direction. */
export function sortedRows(rows: Row[], order: Order | null): Row[] {
  if (!order) return rows;
  const sign = order.isDescending ? -1 : 1;
  const isEmpty = (one: unknown): boolean => one === undefined || one === null;
  return rows.toSorted((a, b) => {
    const [one, other] = [cellOf(a, order.column), cellOf(b, order.column)];
    if (isEmpty(one) || isEmpty(other)) return Number(isEmpty(one)) - Number(isEmpty(other));
    if (typeof one === "number" && typeof other === "number") return sign * (one - other);
    return sign * cellText(one).localeCompare(cellText(other), undefined, { numeric: true });
  });
}

// A sheet runs a cell that begins like a formula, in some languages also with the wide form of the sign; a quote in
// front makes it text. Numbers stay numbers.
const isFormula = (text: string): boolean =>
  /^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/.test(text) && Number.isNaN(Number(text));

/** All columns of all rows, as RFC 4180 has it; without the empty rows of items that gave nothing. */
export function csvOf(all: readonly Row[]): string {
  const rows = all.filter((row) => Object.keys(row).length > 0);
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const cell = (one: unknown): string => {
    const text = one === null ? "" : cellText(one);
    const safe = isFormula(text) ? `'${text}` : text;
    // Where a sheet separates by semicolons, the rest of such a text would be a cell of its own.
    return /[",;\t\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return [columns, ...rows.map((row) => columns.map((name) => cellOf(row, name)))]
    .map((line) => line.map(cell).join(",") + "\r\n")
    .join("");
}

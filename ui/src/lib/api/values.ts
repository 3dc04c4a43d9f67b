// Large values and tables, looked into page by page: the server never sends one whole.

import { address, get, getText } from "./client";
import type { Shape } from "./shapes";

export type ValuePage = Shape["ValuePage"];
export type ValueEntry = Shape["ValueEntry"];
export type TablePage = Shape["TablePage"];

/** Pages of one value: what `pointer` leads to, its entries from `offset` on. */
export interface Pages {
  load: (pointer: string, offset: number, limit: number) => Promise<ValuePage>;
  file: string; // where the whole of it is downloaded
}

/** Where a value lives that is stored apart from the log. */
export interface Reference {
  checksum: string;
  size: number;
  media_type?: string;
  row_count?: number;
}

const CHECKSUM = /^[0-9a-f]{64}$/;
const PARQUET = "application/vnd.apache.parquet";

export function referenceIn(value: unknown): Reference | null {
  if (value === null || typeof value !== "object") return null;
  const { checksum, size, store, key } = value as Record<string, unknown>;
  const isOne = typeof checksum === "string" && CHECKSUM.test(checksum) && typeof size === "number";
  return isOne && typeof store === "string" && typeof key === "string" ? (value as Reference) : null;
}

export const isTable = (reference: Reference): boolean => reference.media_type === PARQUET;

export const MOST_WHOLE = 1_000_000; // bytes of a value that is fetched whole, so that its rows are searched and sorted

export const getWhole = async (pages: Pages): Promise<unknown> => JSON.parse(await getText(pages.file)) as unknown;

/** What a JSON pointer leads to. */
export const partOf = (value: unknown, pointer: string): unknown =>
  pointer
    .split("/")
    .slice(1)
    .map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"))
    .reduce((part, key) => (part as Record<string, unknown>)[key], value);

export const storedPages = (checksum: string): Pages => ({
  load: (pointer, offset, limit) => get<ValuePage>(`results/${checksum}/part`, { pointer, offset, limit }),
  file: address(`results/${checksum}`),
});

export const resultPages = (id: string): Pages => ({
  load: (pointer, offset, limit) => get<ValuePage>(`executions/${id}/result/part`, { pointer, offset, limit }),
  file: address(`executions/${id}/result/file`),
});

/** The data itself: values that are stored apart stand in the place of what refers to them. Tables stay files. */
export async function withStored(value: unknown): Promise<unknown> {
  const reference = referenceIn(value);
  if (reference) return isTable(reference) ? value : withStored(await getWhole(storedPages(reference.checksum)));
  if (Array.isArray(value)) return Promise.all(value.map(withStored));
  if (value === null || typeof value !== "object") return value;
  const parts = Object.entries(value).map(async ([key, item]) => [key, await withStored(item)] as const);
  return Object.fromEntries(await Promise.all(parts));
}

export const tablePage = (checksum: string, offset: number, limit: number) =>
  get<TablePage>(`results/${checksum}/rows`, { offset, limit });
export const tableFile = (checksum: string): string => address(`results/${checksum}/table`);

import { expect, test } from "vitest";
import type { Kind } from "../api/shapes";
import { kindGroups } from "./kind_groups";

const kind = (name: string, group: string, doc: string): Kind => ({
  name,
  group,
  doc,
  inputs: [],
  one_of: [],
  trigger: null,
});
const KINDS = [
  kind("http", "HTTP and APIs", "Calls a URL."),
  kind("postgres", "Databases", "Runs SQL on PostgreSQL."),
  kind("sql", "Databases", "Runs SQL on MySQL, Oracle or Trino."),
  kind("ducklake", "Lakes", "Runs SQL on a lake."),
];
const found = (sought: string): [string, string[]][] =>
  kindGroups(KINDS, sought).map((group) => [group.name, group.kinds.map((one) => one.name)]);

test("without words, all kinds stand in the groups and the order of the server", () => {
  expect(found(" ")).toEqual([
    ["HTTP and APIs", ["http"]],
    ["Databases", ["postgres", "sql"]],
    ["Lakes", ["ducklake"]],
  ]);
});

test("a kind is found by its group and by what it does, in any case", () => {
  expect(found("mysql")).toEqual([["Databases", ["sql"]]]);
  expect(found("databases trino")).toEqual([["Databases", ["sql"]]]);
  expect(found("nothing of that")).toEqual([]);
});

test("a kind whose name begins with what was typed comes first, and its group too", () => {
  expect(found("sql")).toEqual([
    ["Databases", ["sql", "postgres"]],
    ["Lakes", ["ducklake"]],
  ]);
  expect(found("duckl")[0]).toEqual(["Lakes", ["ducklake"]]);
});

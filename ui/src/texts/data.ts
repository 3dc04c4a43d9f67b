import { area, type Value } from "./area";

export const t = area("data", {
  // DataView.svelte
  showAs: "Show as",
  asATree: "tree",
  asAForm: "form",
  yes: "yes",
  no: "no",
  nothing: "–",
  asATableRows: (at: Value, length: Value) => `table of ${at} (${length} rows)`,
  asA: (at: Value, kind: Value) => `${kind} of ${at}`,
  download: "Download",
  downloadCsv: "Download CSV",
  downloadJson: "Download JSON",
  findInTheRows: "Find in the rows",
  noRowHas: (text: Value) => `No row has “${text}”.`,
  rowsOf: (wanted: Value) => `Rows of ${wanted}`,

  // JsonTree.svelte
  tableRows: (rowCount: Value) => `table, ${rowCount} rows, `,
  stored: "stored, ",
  more: (length: Value) => `${length} more`,

  // A value in a few lines (lib/run/brief.ts)
  briefRows: (rowCount: Value) => `table of ${rowCount} rows`,
  briefItems: (many: number, number: Value) => `${number} ${many === 1 ? "item" : "items"}`,
  briefValues: (many: number, number: Value) => `${number} ${many === 1 ? "value" : "values"}`,

  // LazyTree.svelte
  showAsATree: "Show as a tree",
  showAsATable: "Show as a table",
  theValue: "the value",

  // StoredTable.svelte
  theRows: "the rows",
  rowsColumns: (rowCount: Value, length: Value) => `${rowCount} rows, ${length} columns`,
  downloadParquet: "Download Parquet",
  rowsOfTheTable: "Rows of the table",

  // Rows.svelte
  sortBy: (column: Value) => `Sort by ${column}`,
  first: "First",
  previous: "Previous",
  toOf: (offset: Value, offset2: Value, total: Value) => `${offset} to ${offset2} of ${total}`,
  next: "Next",
  last: "Last",

  // InputFields.svelte
  itsInputs: "its inputs",
  howToGiveTheInputs: "How to give the inputs",
  form: "Form",
  json: "JSON",
  inputsAsJson: "Inputs as JSON",
  true: "true",
  false: "false",
  thisPlaybookHasNoInputs: "This playbook has no inputs.",
  theseCredentialsAreMissing: (names: string[]) =>
    names.length === 1
      ? `There is no credential ${names[0]}, so the execution would fail. Store it under`
      : `There are no credentials ${names.join(", ")}, so the execution would fail. Store them under`,
  credentials: "Credentials",
  itUsesTheSecretsBy: (value: Value) => `It uses the secrets ${value}. Their values stay on the server.`,
});

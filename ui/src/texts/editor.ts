import { area, type Value } from "./area";

export const t = area("editor", {
  // Edit.svelte
  newPlaybook: "New playbook",
  unknownDialect: "unknown dialect",
  errors: (many: number) => `${many} ${many === 1 ? "error" : "errors"}`,
  noErrors: "no errors",
  warnings: (many: number) => `, ${many} ${many === 1 ? "warning" : "warnings"}`,
  templatesButton: "Templates",
  edit: (step: Value) => `Edit ${step}`,
  format: "Format",
  register: "Register",
  start: "Start",
  theNetIsDrawnOnce: "The net is drawn once the text has no errors.",
  thisIsTheNetOf: "This is the net of the text before its errors.",
  versionIsRegistered: (path: Value, version: Value) => `${path} version ${version} is registered`,
  nothingChangedThisIsThe: "Nothing changed: this is the newest version",
  lineNeedsAPerson: (line: Value, message: Value, wayOut: Value) =>
    `line ${line} needs a person: ${message}. ${wayOut}`,
  line: (line: Value, message: Value) => `line ${line}: ${message}`,
  asV10: "As v10",
  versionAndThisText: (version: Value) => `Version ${version} and this text`,

  // Compare.svelte
  close: "Close",
  takeIt: "Take it",

  // lib/editor
  playbook: "Playbook",
  oneOf: (values: Value) => ` One of ${values}.`,

  // Findings.svelte
  findings: "Findings",
  replaceWith: (replacement: Value) => `Replace with ${replacement}`,
  playTheWitness: "Play the witness",

  // Limit.svelte
  limit: "Limit",
  set: "Set",
  reset: "Reset",
  executionsUnderTheLimit: "Executions under the limit",
  key: "Key",
  atMost: "At most",
  running: "Running",
  waiting: "Waiting",
  noLimit: "no limit",
  atOnceSetHere: (set: Value) => `${set} at once, set here`,
  atOnceInPlaceOf: (set: Value, written: Value) => `${set} at once, set here in place of ${written}`,
  atOnceAsThePlaybook: (written: Value) => `${written} at once, as the playbook says`,
  asThePlaybookSaysNobody: "as the playbook says; nobody runs under a limit now",
  atMostAtOnceFrom: (limit: Value) => `At most ${limit} at once from now on`,
  resetTheLimit: "Reset the limit?",
  fromNowOnAsMany: (path: Value, value: Value) =>
    `From now on as many executions of ${path} go on at once as the playbook itself says${value}.`,
  resetIt: "Reset it",
  asThePlaybookSaysAgain: "As the playbook says again",

  // Offers.svelte
  youHaveAnUnregisteredDraft: "You have an unregistered draft of this playbook.",
  restore: "Restore",
  discard: "Discard",
  thisPlaybookIsRefusedAs: "This playbook is refused as it is written, and can be rewritten as v10.",
  thisPlaybookIsRefusedAsIt:
    "This playbook is refused as it is written. Most of it can be rewritten as v10; some places need you.",
  migrateToV10: "Migrate to v10",

  // RunDraft.svelte
  runDraft: "Run draft",
  thisTextRunsOnceAs:
    "This text runs once, as it is. The registered version and its schedule stay as they are; what its tools do is done.",
  cancel: "Cancel",
  theDraftRunsNothingWas: (diagnostics: Value) => `The draft runs; nothing was registered${diagnostics}`,

  // StepDialog.svelte
  addAStep: "Add a step",
  step: (step: Value) => `Step ${step}`,
  theForm: "the form",
  name: "Name *",
  lettersDigitsAndUnderscores: "letters, digits and underscores",
  place: "Place",
  betweenAnd: (after: Value, before: Value) => `between ${after} and ${before}`,
  after: (after: Value) => `after ${after}`,
  tool: "Tool",
  moreInputs: (length: Value) => `More inputs (${length})`,
  addStep: "Add step",
  apply: "Apply",
  writtenAsYaml: " Written as YAML.",

  // Templates.svelte
  beginWithATemplate: "Begin with a template",
  templates: "templates",

  // Versions.svelte
  version: "Version",
  versionNumber: (version: Value, value: Value) => `version ${version}${value}`,
  compareWith: "Compare with",
  compare: "Compare …",
  withVersion: (version: Value) => `with version ${version}`,

  // Witness.svelte
  witnessOf: (code: Value) => `Witness of ${code}`,
  stop: "Stop",
  play: "Play",
});

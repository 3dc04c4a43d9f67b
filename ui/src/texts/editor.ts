import { area, type Value } from "./area";

export const t = area("editor", {
  // Edit.svelte
  newPlaybook: "New playbook",
  unknownDialect: "unknown dialect",
  errors: (many: number) => `${many} ${many === 1 ? "error" : "errors"}`,
  noErrors: "no errors",
  warnings: (many: number) => `, ${many} ${many === 1 ? "warning" : "warnings"}`,
  templatesButton: "Templates",
  isBeingChecked: "checking …",
  fixTheErrorsFirst: "A step is added to a text without errors",
  editStep: "Edit step",
  edit: (step: Value) => `Edit step ${step}`,
  chooseAStep: "Choose a step in the text or in the net",
  format: "Format",
  register: "Register",
  start: "Start",
  theNet: "the net",
  theNetIsDrawnOnce: "The net appears when the text has no errors.",
  thisIsTheNetOf: "This net belongs to the last text without errors.",
  versionIsRegistered: (path: Value, version: Value) => `${path} version ${version} is registered`,
  nothingChangedThisIsThe: "Nothing changed: this is the newest version",
  lineNeedsAPerson: (line: Value, message: Value, wayOut: Value) =>
    `line ${line} must be changed by hand: ${message}. ${wayOut}`,
  line: (line: Value, message: Value) => `line ${line}: ${message}`,
  asV10: "As v10",
  versionAndThisText: (version: Value) => `Version ${version} and this text`,

  // Compare.svelte
  close: "Close",
  takeIt: "Use this text",

  // lib/editor
  playbook: "Playbook",
  oneOf: (values: Value) => ` One of ${values}.`,

  // Findings.svelte
  findings: "Findings",
  noFindings: "Nothing was found in this text.",
  replaceWith: (replacement: Value) => `Replace with ${replacement}`,
  playTheWitness: "Show how it happens",

  // Limit.svelte
  limit: "Executions at once",
  set: "Set",
  reset: "Reset",
  executionsUnderTheLimit: "Executions under the limit",
  key: "Key",
  atMost: "At most",
  running: "Running",
  waiting: "Waiting",
  noLimit: "no limit",
  atOnceSetHere: (set: Value) => `at most ${set}, set here`,
  atOnceInPlaceOf: (set: Value, written: Value) => `at most ${set}, set here instead of ${written}`,
  atOnceAsThePlaybook: (written: Value) => `at most ${written}, as in the playbook`,
  asThePlaybookSaysNone: "as in the playbook; no execution is limited now",
  atMostAtOnceFrom: (limit: Value) => `At most ${limit} at once from now on`,
  resetTheLimit: "Reset the limit?",
  fromNowOnAsMany: (path: Value, value: Value) => `The limit in the text of ${path} applies again${value}.`,
  resetIt: "Reset limit",
  asThePlaybookSaysAgain: "The limit in the playbook applies again",

  // Offers
  youHaveAnUnregisteredDraft: (path: Value, at: Value) => `Unregistered draft of ${path}${at ? `, ${at}` : ""}`,
  restore: "Restore",
  discard: "Discard",
  thisPlaybookIsRefusedAs: "This playbook cannot be registered as it is. It can be rewritten as v10.",
  thisPlaybookIsRefusedAsIt:
    "This playbook cannot be registered as it is. Most of it can be rewritten as v10; some places must be changed by hand.",
  migrateToV10: "Migrate to v10",
  mistakesCanBePutRight: "A rewrite can fix mistakes in this text.",
  someKeysAreInOtherWords: "Some keys are in other words than those of v10. They work; a rewrite says the same in v10.",
  showTheRewrite: "Show the rewrite",
  rewritten: "Rewritten",

  // Replace.svelte
  replaceVersion: (version: Value, path: Value) => `Replace version ${version} of ${path}?`,
  itIsNewer: (version: Value, at: Value, opened: Value) =>
    `This text was opened from version ${opened}. Version ${version} is newer: it was registered ${at}.`,
  thereIsOneAlready: (version: Value, at: Value) =>
    `There is a playbook of this path already. Its version ${version} was registered ${at}.`,
  itsScheduleEnds: (schedule: Value) => `Its schedule ${schedule} ends: this text has none.`,
  itsNotificationsEnd: (events: Value) => `Its notifications end (${events}): this text has none of them.`,
  compareThem: "Compare",
  registerAnyway: "Register anyway",

  // RunDraft.svelte
  runDraft: "Run draft",
  thisTextRunsOnceAs:
    "This text runs once, as it is. The registered version and its schedule stay as they are. Its tools really run.",
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
  findATool: "Find a tool",
  noToolMatches: "No tool matches",
  chosenTool: (name: Value) => `Chosen: ${name}`,
  moreInputs: (length: Value) => `More inputs (${length})`,
  addStep: "Add step",
  apply: "Apply",
  writtenAsYaml: " Written as YAML.",

  // Templates.svelte
  beginWithATemplate: "Start from a template",
  templates: "templates",

  // Versions.svelte
  version: "Version",
  versionNumber: (version: Value, value: Value) => `version ${version}${value}`,
  compareWith: "Compare with",
  compare: "Compare …",
  withVersion: (version: Value) => `with version ${version}`,

  // Witness.svelte
  witnessOf: (code: Value) => `How ${code} happens`,
  stop: "Stop",
  play: "Play",
});

import { area, type Value } from "./area";

export const t = area("shell", {
  // App.svelte
  noetl: "NoETL",
  thePage: "the page",

  // Shell.svelte
  skipToTheContent: "Skip to the content",
  menu: "Menu",
  main: "Main",
  aTaskIsAssigned: "A task is assigned to you.",
  executionFailed: (name: Value) => `${name} failed`,
  notifyMe: { tasks: "Notify me of new tasks", failures: "Notify me of failed executions" },
  theBrowserRefuses: "This browser refuses notifications from this page; allow them in its settings for this address.",
  tasksForYou: (tasks: Value) => `Tasks, ${tasks} for you`,
  goTo: "Go to …",
  changeTheTimeZone: "Change the time zone",
  timesIn: (shownZone: Value) => `Times in ${shownZone}`,
  role: (role: Value) => `role: ${role}`,
  signOut: "Sign out",
  yourTokenExpires: (soon: Value) => `Your token expires ${soon}`,
  home: "Home",
  playbooks: "Playbooks",
  executions: "Executions",
  tasks: "Tasks",
  schedules: "Schedules",
  triggers: "Triggers",
  webhooks: "Webhooks",
  messages: "Messages",
  notifications: "Notifications",
  workers: "Workers",
  credentials: "Credentials",
  settings: "Settings",
  audit: "Audit",

  // Palette.svelte
  goToTitle: "Go to",
  playbookExecutionStepScreenOr: "Playbook, execution, step, task, worker, screen or page",
  found: "Found",
  kinds: {
    screen: "screen",
    step: "step",
    playbook: "playbook",
    start: "start",
    execution: "execution",
    task: "task",
    worker: "worker",
    documentation: "documentation",
  },
  stepOf: (path: Value) => `step of ${path}`,
  noMatches: "No matches",
  start: (path: Value) => `Start ${path}`,

  // Keys.svelte
  keys: "Keys",
  ctrlK: "Ctrl K",
  goToAPlaybookAn: "go to a playbook, an execution, a step, a screen",
  searchOrFilter: "search or filter",
  jK: "j  k",
  nextAndPreviousRow: "next and previous row",
  enter: "Enter",
  openTheRow: "open the row",
  selectTheRow: "select the row",
  esc: "Esc",
  closeOrLeaveAField: "close, or leave a field",
  thisList: "this list",

  // Connection.svelte
  connectionLostWhatYouSee: "Connection lost. What you see may be out of date; this page reconnects by itself.",
  theServerHasANew: "The server has a new version of this page. The next screen you open loads it.",
  reloadNow: "Reload now",

  // Question.svelte
  cancel: "Cancel",

  // Dialog.svelte
  close: "Close",

  // Notices.svelte
  dismiss: "Dismiss",

  // Unloaded.svelte
  thisScreenCouldNotBe: "This screen could not be loaded",
  theServerDidNotGive: "The server did not deliver its script. This page tries again by itself.",
  tryAgain: "Try again",

  // Problem.svelte
  triesAgainByItself: "This page tries again by itself.",

  // Absent.svelte
  noSuch: (what: Value) => `No such ${what}`,
  theCannotBeShown: (what: Value) => `The ${what} cannot be shown`,
  notFound: "Not found",

  // Loading.svelte
  loading: (what: Value) => `Loading ${what} …`,

  // Page.svelte
  pageTitle: (title: Value) => `${title} · NoETL`,

  // Spark.svelte
  now: (label: Value, said: Value) => `${label}: ${said}`,

  // Verdict.svelte
  verdicts: { sound: "sound", unsound: "unsound", "not decided": "not decided" } as Record<string, string>,
  proved: {
    sound: "Proved: every run can reach an end, and every step can be reached.",
    unsound: "Proved: some run cannot reach an end, or some step can never run. The editor shows where.",
    "not decided": "Neither was proved: whether every run can reach an end depends on data.",
  } as Record<string, string>,

  // Login.svelte
  token: "Token",
  theServerPrintedOneWhen: "The server printed one when it first started.",
  makesAnother: "makes another.",
  signIn: "Sign in",

  // Missing.svelte
  pageNotFound: "Page not found",
  thereIsNoPageAt: "There is no page at",
  goToHome: "Go to Home",
});

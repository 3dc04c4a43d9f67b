// The language of the page: English, or one that this browser was told to speak. Another one is a module with the texts of
// some or all areas (`Language`) and a line in LANGUAGES; it is loaded before the page is drawn.

import type { t as attempts } from "./attempts";
import type { t as audit } from "./audit";
import type { t as data } from "./data";
import type { t as editor } from "./editor";
import type { t as execution } from "./execution";
import type { t as executions } from "./executions";
import type { t as home } from "./home";
import type { t as messages } from "./messages";
import type { t as net } from "./net";
import type { t as notifications } from "./notifications";
import type { t as playbooks } from "./playbooks";
import type { t as run } from "./run";
import type { t as schedules } from "./schedules";
import type { t as settings } from "./settings";
import type { t as shell } from "./shell";
import type { t as step_test } from "./step_test";
import type { t as tasks } from "./tasks";
import type { t as triggers } from "./triggers";
import type { t as words } from "./words";
import type { t as workers } from "./workers";
import { speak, type Texts, type Translated, type Translator } from "./area";
import { bracketed } from "./pseudo";

/** Every text of the UI, by area. */
export interface Catalogue {
  attempts: typeof attempts;
  audit: typeof audit;
  data: typeof data;
  editor: typeof editor;
  execution: typeof execution;
  executions: typeof executions;
  home: typeof home;
  messages: typeof messages;
  net: typeof net;
  notifications: typeof notifications;
  playbooks: typeof playbooks;
  run: typeof run;
  schedules: typeof schedules;
  settings: typeof settings;
  shell: typeof shell;
  step_test: typeof step_test;
  tasks: typeof tasks;
  triggers: typeof triggers;
  words: typeof words;
  workers: typeof workers;
}

export type Language = { [Area in keyof Catalogue]?: Translated<Catalogue[Area]> };

interface Spoken {
  locale?: string; // of moments and numbers; without it, the browser's
  load: () => Promise<Translator>;
}

/** Texts of a language as a translator: an area that it does not have stays English. */
export const translatorOf =
  (language: Language): Translator =>
  (area) =>
    (language as Record<string, Texts | undefined>)[area] ?? {};

const LANGUAGES: Record<string, Spoken> = {
  // Every text in brackets: what is seen without them is no text of the catalogue.
  pseudo: { load: () => Promise.resolve(bracketed) },
};

const KEY = "noetl.language";

/** Speak what this browser was told to, before the page is drawn. */
export async function chooseLanguage(): Promise<void> {
  let wanted = "";
  try {
    wanted = localStorage.getItem(KEY) ?? "";
  } catch {
    // a browser may forbid storage; it speaks English then
  }
  const language = Object.hasOwn(LANGUAGES, wanted) ? LANGUAGES[wanted] : undefined;
  if (language) speak(await language.load(), language.locale);
}

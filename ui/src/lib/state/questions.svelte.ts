// Questions that must be answered before something is done: what it is, what it does, and what has to be said with it.
// One is open at a time; the shell draws it.

export interface Blank {
  name: string;
  label: string;
  kind?: "text" | "number" | "check";
  value?: string | boolean;
  hint?: string;
  required?: boolean;
}

export type Answers = Record<string, string | boolean>;

export interface Question {
  title: string;
  /** What happens, for what is filled in at the moment. */
  text?: string | ((answers: Answers) => string);
  /** The word on the button that does it. */
  verb: string;
  /** The word on the button that does not. */
  leave?: string;
  danger?: boolean;
  blanks?: Blank[];
  /** Does it; what it throws is shown, and the question stays open. */
  act?: (answers: Answers) => unknown;
}

interface Asked extends Question {
  settle: (answers: Answers | null) => void;
}

export const questions = $state<{ open: Asked | null }>({ open: null });

/** What was answered once it is done, or null when it was left. */
export function ask(question: Question): Promise<Answers | null> {
  questions.open?.settle(null);
  return new Promise((settle) => (questions.open = { ...question, settle }));
}

export function answer(answers: Answers | null): void {
  const asked = questions.open;
  questions.open = null;
  asked?.settle(answers);
}

// A language for tests: every text in brackets.

import type { Texts, Translator } from "./area";

export const bracketed: Translator = (_area, english) => marked(english);

const mark = (text: string): string => `⟦${text}⟧`;

function marked(texts: Texts): Texts {
  return Object.fromEntries(
    Object.entries(texts).map(([name, text]): [string, Texts[string]] => {
      if (typeof text === "string") return [name, mark(text)];
      return [name, typeof text === "function" ? (...given: never[]) => mark(text(...given)) : marked(text)];
    }),
  );
}

// The texts of the UI: one file for each area of screens, loaded with the screens that use it. A language replaces them
// before anything is drawn; what it does not say stays English.

/** What stands in a text: numbers and moments are written by `lib/words` before they come here. */
export type Value = string | number;

type Text = string | ((...given: never[]) => string);
export type Texts = { [name: string]: Text | Texts };

/** Some or all texts of an area, in another language. */
export type Translated<T extends Texts> = { [K in keyof T]?: T[K] extends Texts ? Translated<T[K]> : T[K] };

/** Gives what it says in place of the English texts of an area. */
export type Translator = (area: string, english: Texts) => Texts;

const loaded = new Map<string, Texts>();
let translator: Translator | null = null;
let spoken: string | undefined;

/** In which moments and numbers are written; without one, as the browser does. */
export const locale = (): string | undefined => spoken;

/** The texts of an area. The same object is filled with another language: areas are loaded before one is chosen, and after. */
export function area<T extends Texts>(name: string, english: T): T {
  loaded.set(name, english);
  if (translator) replace(english, translator(name, english));
  return english;
}

/** Speak another language from now on. Called before the page is drawn: texts are read once. */
export function speak(language: Translator, inLocale?: string): void {
  [translator, spoken] = [language, inLocale];
  for (const [name, texts] of loaded) replace(texts, language(name, texts));
}

function replace(texts: Texts, others: Texts): void {
  for (const [name, other] of Object.entries(others)) {
    const text = texts[name];
    if (typeof text === "object" && typeof other === "object") replace(text, other);
    else if (typeof text === typeof other) texts[name] = other;
  }
}

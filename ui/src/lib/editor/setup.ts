// CodeMirror, put together. Loaded only where somebody edits.

import { acceptCompletion, autocompletion, closeBrackets, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, foldGutter, foldKeymap, HighlightStyle, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { Annotation, EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { complete, type Words } from "./completion";
import { underlines, type Diagnostic } from "./diagnostics";

export interface Handle {
  setText(text: string): void;
  setDiagnostics(found: readonly Diagnostic[]): void;
  setWords(words: Words | undefined): void;
  reveal(line: number): void;
  close(): void;
}

interface Options {
  text: string;
  readonly: boolean;
  label: string;
  onchange: (text: string) => void;
  oncursor: (line: number) => void;
  onsave: () => void;
}

const fromOutside = Annotation.define<boolean>();

const LOOK = EditorView.theme({
  "&": { height: "100%", fontSize: "13px", backgroundColor: "var(--surface)", color: "var(--text)" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55" },
  ".cm-gutters": { backgroundColor: "var(--ground)", color: "var(--text-faint)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--accent) 7%, transparent)" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--accent-soft)" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--text)", border: "1px solid var(--line)", borderRadius: "6px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-completionDetail": { color: "var(--text-faint)", fontStyle: "normal", marginLeft: "12px" },
  ".cm-diagnostic": { whiteSpace: "pre-wrap", padding: "6px 10px" },
  ".cm-diagnosticSource": { fontFamily: "var(--mono)", fontSize: "11px", opacity: "0.8" },
});

const COLOURS = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--running)" },
  { tag: [tags.string, tags.content], color: "var(--text)" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom, tags.keyword], color: "var(--waiting)" },
  { tag: tags.comment, color: "var(--text-faint)", fontStyle: "italic" },
  { tag: [tags.meta, tags.separator, tags.punctuation], color: "var(--text-soft)" },
]);

export function openEditor(root: ShadowRoot, { text, readonly, label, onchange, oncursor, onsave }: Options): Handle {
  let words: Words | undefined;
  let line = 0;
  const save = { key: "Mod-s", preventDefault: true, run: () => (onsave(), true) };
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(),
        foldGutter(),
        lintGutter(),
        history(),
        drawSelection(),
        indentOnInput(),
        bracketMatching(),
        closeBrackets(),
        highlightActiveLine(),
        highlightActiveLineGutter(),
        highlightSelectionMatches(),
        yaml(),
        syntaxHighlighting(COLOURS),
        LOOK,
        autocompletion({ override: [(context) => complete(words, context)], icons: false }),
        keymap.of([save, { key: "Tab", run: acceptCompletion }, ...defaultKeymap, ...historyKeymap, ...searchKeymap, ...foldKeymap, ...lintKeymap, ...completionKeymap, indentWithTab]),
        EditorState.readOnly.of(readonly),
        EditorState.tabSize.of(2),
        EditorView.contentAttributes.of({ "aria-label": label }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged && !update.transactions.some((one) => one.annotation(fromOutside))) onchange(update.state.doc.toString());
          const now = update.state.doc.lineAt(update.state.selection.main.head).number;
          if (update.selectionSet && now !== line) oncursor((line = now));
        }),
      ],
    }),
  });
  return {
    setText(next) {
      if (next === view.state.doc.toString()) return;
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: next }, annotations: fromOutside.of(true) });
    },
    setDiagnostics: (found) => view.dispatch(setDiagnostics(view.state, underlines(view.state.doc, found))),
    setWords: (next) => (words = next),
    reveal(number) {
      const at = view.state.doc.line(Math.min(Math.max(1, number), view.state.doc.lines));
      view.dispatch({ selection: { anchor: at.from }, effects: EditorView.scrollIntoView(at.from, { y: "center" }) });
      line = at.number;
      view.focus();
    },
    close: () => view.destroy(),
  };
}

// CodeMirror, put together. Loaded only where somebody edits.

import { t } from "../../texts/editor";
import { acceptCompletion, autocompletion, closeBrackets, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, foldGutter, foldKeymap, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { Annotation, ChangeSet, EditorState, type Text } from "@codemirror/state";
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  hoverTooltip,
  keymap,
  lineNumbers,
} from "@codemirror/view";
import { complete, type Words } from "./completion";
import { changesOf, underlines, type Diagnostic, type Fix } from "./diagnostics";
import { documentationAt, type Documentation } from "./documentation";
import { COLOURS, LOOK } from "./look";

export interface Handle {
  setText(text: string): void;
  setDiagnostics(found: readonly Diagnostic[]): void;
  /** Make a fix of the diagnostics; what was typed since they were found stays. */
  applyFix(fix: Fix): void;
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

interface Checked {
  document: Text;
  since: ChangeSet;
  fixes: ReadonlySet<Fix>;
}

const fromOutside = Annotation.define<boolean>();

/** What a key is for, beside it. All of it is text. */
function card({ word, text, values }: Documentation): HTMLElement {
  const dom = document.createElement("div");
  dom.className = "cm-documentation";
  const name = document.createElement("strong");
  name.textContent = word;
  dom.append(name, text ? ` ${text}` : "", values.length ? t.oneOf(values.join(", ")) : "");
  return dom;
}

export function openEditor(root: ShadowRoot, { text, readonly, label, onchange, oncursor, onsave }: Options): Handle {
  let words: Words | undefined;
  let line = 0;
  // The texts that the newest findings and those before them are about, and how the text has changed since: a press that
  // began before the newest came is for one of those before.
  let checks: Checked[] = [];
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
        hoverTooltip((shown, at) => {
          const on = shown.state.doc.lineAt(at);
          const found = words?.schema && documentationAt(words.schema, shown.state.doc, on.number, at - on.from);
          if (!found) return null;
          const create = (): { dom: HTMLElement } => ({ dom: card(found) });
          return { pos: on.from + found.from, end: on.from + found.to, above: true, create };
        }),
        keymap.of([
          save,
          { key: "Tab", run: acceptCompletion },
          ...defaultKeymap,
          ...historyKeymap,
          ...searchKeymap,
          ...foldKeymap,
          ...lintKeymap,
          ...completionKeymap,
          indentWithTab,
        ]),
        EditorState.readOnly.of(readonly),
        EditorState.tabSize.of(2),
        EditorView.contentAttributes.of({ "aria-label": label }),
        EditorView.updateListener.of((update) => {
          for (const one of checks) one.since = one.since.compose(update.changes);
          if (update.docChanged && !update.transactions.some((one) => one.annotation(fromOutside)))
            onchange(update.state.doc.toString());
          const now = update.state.doc.lineAt(update.state.selection.main.head).number;
          if (update.selectionSet && now !== line) oncursor((line = now));
        }),
      ],
    }),
  });
  function applyFix(fix: Fix): void {
    const found = checks.find((one) => one.fixes.has(fix));
    if (!found) return; // of a text that is long gone
    const changes = ChangeSet.of(changesOf(found.document, fix), found.document.length).map(found.since);
    view.dispatch({ changes, userEvent: "input.fix" });
  }
  view.scrollDOM.tabIndex = 0; // so that who has no mouse can scroll it too
  return {
    setText(next) {
      if (next === view.state.doc.toString()) return;
      view.dispatch({
        changes: { from: 0, to: view.state.doc.length, insert: next },
        annotations: fromOutside.of(true),
      });
    },
    setDiagnostics(found) {
      const fixes = new Set(found.flatMap((one) => one.fix ?? []));
      checks = [{ document: view.state.doc, since: ChangeSet.empty(view.state.doc.length), fixes }, ...checks].slice(
        0,
        2,
      );
      view.dispatch(setDiagnostics(view.state, underlines(view.state.doc, found, applyFix)));
    },
    applyFix,
    setWords: (next) => (words = next),
    reveal(number) {
      const at = view.state.doc.line(Math.min(Math.max(1, number), view.state.doc.lines));
      view.dispatch({ selection: { anchor: at.from }, effects: EditorView.scrollIntoView(at.from, { y: "center" }) });
      line = at.number;
      // Who searches the net keeps the focus there: the next letters or Enter would go into the text.
      if (!document.activeElement?.closest("form")) view.focus();
    },
    close: () => view.destroy(),
  };
}

// Two texts side by side with what differs marked.

import { MergeView } from "@codemirror/merge";
import { EditorState } from "@codemirror/state";
import { EditorView, lineNumbers } from "@codemirror/view";
import { COLOURS, LOOK } from "./look";
import { yaml } from "@codemirror/lang-yaml";
import { syntaxHighlighting } from "@codemirror/language";

export function openComparison(root: ShadowRoot, before: string, after: string): () => void {
  const extensions = [
    lineNumbers(),
    yaml(),
    syntaxHighlighting(COLOURS),
    LOOK,
    EditorState.readOnly.of(true),
    EditorView.lineWrapping,
  ];
  const view = new MergeView({
    a: { doc: before, extensions },
    b: { doc: after, extensions },
    parent: root,
    root,
    collapseUnchanged: { margin: 3, minSize: 6 },
  });
  return () => view.destroy();
}

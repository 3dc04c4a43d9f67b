"""Drawing: a net in, text, SVG, Mermaid or Graphviz out. Read first: `drawing.py` (what is drawn), `layout.py`
(where), `svg.py`, `text_forms.py`."""

"""Formatting: the same playbook in one layout, every comment kept.

`layout_reader.py` parses a document into its layout and `layout.py` writes it; `noetl fmt` and `noetl migrate` both
change text this way. They are the only code that decides which comment belongs to what, and know no keys and no
dialect. Read first: `formatter.py`, `layout.py` (with the writer), `layout_reader.py`.
"""

"""Formatting: the same playbook in one layout, every comment kept.

`layout.py` and `layout_reader.py` take a document as it is written apart and write it again; `noetl fmt` and
`noetl migrate` both change text this way. They are the only code that decides which comment belongs to what, and know
no keys and no dialect. Read first: `formatter.py`, `layout.py` (with the writer), `layout_reader.py`.
"""

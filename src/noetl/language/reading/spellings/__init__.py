"""Spellings: the words that people write for what the language calls something else, and one table of them.

In comes a document as it was written, out goes the same document in the words of its dialect, with a note for every
change. The readers behind this package know one word for each thing; `docs/conventions.md`, `docs/migration.md` and
`noetl migrate` use the same table. What a value means is not known here. Read `respelling.py` (the table
and the walk), `steps.py`.
"""

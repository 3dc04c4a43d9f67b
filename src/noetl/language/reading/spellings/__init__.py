"""Spellings: the words that people write for what the language calls something else, and one table of them.

In: a document as it was written. Out: the same document in the words of its dialect, with a note for every change. So
the readers have to know one word only for each thing. `docs/conventions.md`, `docs/migration.md` and `noetl migrate`
use the same table. Refuses to know: the meaning of a value. Read `respelling.py` (the table and the walk), `steps.py`.
"""

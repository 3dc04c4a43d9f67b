"""Spellings: other keys and shapes that people write, and the one table that translates them.

In: a document as it was written. Out: the same document in the words of its dialect, with a note for every change. So
the readers need to know only the canonical form. `docs/conventions.md`, `docs/migration.md` and `noetl migrate` use the
same table. Refuses to know: the meaning of a value. Read `respelling.py` (the table and the walk), `steps.py`.
"""

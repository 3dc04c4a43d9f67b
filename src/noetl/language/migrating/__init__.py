"""Migrating: a document of an older dialect in, v10 text with the same behaviour and its comments out.

What v10 cannot express is reported with its place, never guessed. Steps of v2-case are migrated at their own address
(`noetl.language.v2_case`). Read first: `migrator.py` (the entry point), `rescue.py` (documents of no one dialect),
`document_writer.py` (fragments to text that keeps its comments).
"""

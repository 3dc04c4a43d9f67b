"""Migrating: a document of an older dialect in, v10 text with the same behaviour and its comments out.

What v10 cannot express is reported with its place, never guessed. Read first: `migrator.py` (the entry point),
`document_writer.py` (fragments to text that keeps its comments), `rule_placement.py` (where each case rule goes),
`step_rules.py` (how the rules of one step bear on each other).
"""

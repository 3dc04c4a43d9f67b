"""Reading: YAML text in, a `Playbook` out, every value with its place in the text.

One reader per dialect (`v10.py`, `v2_eval.py`, `v2_case/`) over shared parts. All mistakes are noted, none stops the
reading. Refuses to know: what a net is.

Read first: `reader.py` (the entry point), `dialect.py` (which dialect a text is written in), `playbook.py` (the
result).
"""

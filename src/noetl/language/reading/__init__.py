"""Reading: YAML text in, a `Playbook` out, every value with its place in the text.

`reader.py` reads v10 and v2-eval over shared parts; v2-case has its own address (`noetl.language.v2_case`). All
mistakes are noted, none stops the reading. Refuses to know: nets.

Read first: `reader.py` (the entry point, and which dialect a text is written in), `playbook.py` (the result).
"""

"""v2-case: an older dialect with `tool`, `case`, `retry`, `sink`, `vars` and a plain `next`.

`port.py` is the only entry point: the rest of the language reads, lowers, proves and migrates such steps through it,
and `tests/test_imports.py` checks that. The other modules:

- `reader.py`, with `rules.py` and `tools.py`: from nodes to a `Playbook`; `rules.py` also makes the part of the net
- `firings.py`: what a proof may assume about it
- `rule_spellings.py` and `action_spellings.py`: accepted words
- `migration/`: the same behaviour as v10

`noetl.engine.v2_case` runs such steps. Read first: `port.py`, `reader.py`, `migration/rule_placement.py`.
"""

"""v2-case: an older dialect at one address: `tool`, `case`, `retry`, `sink`, `vars` and a plain `next`.

`port.py` is the only door: the rest of the language reads, lowers, proves and migrates such steps through it, and
`tests/test_imports.py` checks that. Behind it: the reader (`reader.py` and what it calls), `lowering.py` and
`firings.py` (what a proof may assume), `spellings` (accepted words) and `migration` (the same behaviour as v10).
How such steps run is in `noetl.engine.v2_case`. Read first: `port.py`, `reader.py`, `migration/rule_placement.py`.
"""

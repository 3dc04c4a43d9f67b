"""Steps of v2-case as v10: each rule becomes arcs, policy rules, tasks, or steps of their own (MIG-03).

What v10 cannot express is reported with its place, never guessed. Read first: `step.py`, `rule_placement.py` (where
each rule goes), `rules.py` (how the rules of one step bear on each other), `pipeline.py` (rules that only a
pipeline with jumps can follow).
"""

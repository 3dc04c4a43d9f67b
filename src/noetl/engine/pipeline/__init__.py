"""The task pipeline as pure functions: inputs, outcome, policy, directive, next position.

The worker runs pipelines with tools; the engine runs those of nothing but `noop` itself. Both call these functions.
Refuses to know: tools, clocks, stores. Read first: `progress.py`, `policy.py`, `preparation.py`.
"""

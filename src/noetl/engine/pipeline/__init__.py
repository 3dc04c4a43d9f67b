"""The task pipeline as pure functions: inputs, outcome, policy, directive, next position.

The worker runs pipelines with tools; the engine itself runs pipelines that contain only `noop` tasks. Both call
these functions.
Refuses to know: tools, clocks, stores. Read first: `progress.py`, `policy.py`, `preparation.py`.
"""

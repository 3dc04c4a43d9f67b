"""Side runs: pipelines that run beside the tokens under orders of their own: compensations, event handlers, async
tasks.

Each is a step run without a token; an execution ends only when none is left. Read first: `state.py`, `evolution.py`.
"""

"""Loops: when iterations are handed out, what they may write, and when a loop is done.

A loop is a property of a step, not a kind of step. Its state is one frame per open level, counters and a bitmap; only
iterations that have begun and not ended are objects. Which worker takes which range is not decided here.
Read first: `next_action.py`, `state.py`, `endings.py`; `reducers.py` (what iterations write to `ctx`).
"""

"""Waits of step runs: timers, messages, signals and human tasks; how they start and end.

Read first: `state.py`, `wait_start.py`, `delivery.py`.
"""

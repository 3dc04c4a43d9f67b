"""Waits of step runs: timers, messages, signals and human tasks; what starts them and what ends them.

Read first: `state.py`, `wait_start.py`, `delivery.py`.
"""

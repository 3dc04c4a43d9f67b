"""Timers of executions, and schedules that start playbooks.

Read first: `timers.py`, `schedules.py`.
"""

"""Readers of wait blocks: timers, messages, signals, human tasks, timeouts, compensation, event handlers.

Read first: `blocks.py`.
"""

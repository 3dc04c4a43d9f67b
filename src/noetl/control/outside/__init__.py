"""Input from outside an execution: messages, signals, human tasks, requests of other processes.

Read first: `delivery.py`, `human_tasks.py`.
"""

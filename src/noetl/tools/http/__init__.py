"""`http`: one request, with address policy, streamed and bounded.

Read first: `tool.py`, `guard.py`, `addresses.py`.
"""

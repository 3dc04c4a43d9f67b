"""`http`: one request, with address policy, streamed and bounded.

Read first: `tool.py`, `calls.py`; which addresses are allowed: `base/addresses/policy.py`.
"""

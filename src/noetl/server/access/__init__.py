"""Access: who may ask what.

Tokens, sessions, roles, rate limits, audit, webhooks. Read first: `gate.py`, `roles.py`, `callers.py`.
"""

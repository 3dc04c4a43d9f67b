"""Access: which roles may call which route.

Tokens, sessions, roles, rate limits, audit, webhooks. Read first: `gate.py`, `roles.py`, `callers.py`.
"""

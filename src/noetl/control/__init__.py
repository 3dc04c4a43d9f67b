"""The control plane: the engine's shell. Load, decide, commit, dispatch.

In: commands for executions (start, report, message, timer due, pause). Out: committed events, and only then effects:
orders become claimable, wake-ups are sent, watchers hear of it. Refuses to know: HTTP.

Read first: `executions.py` (the public face), `commit/group_commit.py` (many commands, one transaction),
`claiming/claims.py` (which worker gets which order).
"""

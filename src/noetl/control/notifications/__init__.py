"""Notifications: notices about executions to people and other programs (NTF-01 to NTF-08).

In come the events of a commit, the `on` of a playbook and the rules of the installation; notices go into the same
commit. `sender.py` sends them afterwards, so that no execution waits for a mail server or a hook.

Read first: `notices.py`, `sender.py`, `rules.py`.
"""

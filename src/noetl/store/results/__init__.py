"""Result stores: large values by content hash, in files, object stores or NATS.

Read first: `files.py`, `remote.py`.
"""

"""The reader of the v2-case dialect: `tool`, `case`, `retry`, `sink`, `vars` and a plain `next`.

Read first: `reader.py`.
"""

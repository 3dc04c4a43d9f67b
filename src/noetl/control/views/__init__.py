"""Where tokens, side runs and limits of an execution stand, in words people can act on.

Read first: `token_views.py`.
"""

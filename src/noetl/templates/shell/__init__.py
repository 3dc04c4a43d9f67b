"""Shell commands with templates: every template value becomes a single quoted argument, never code.

In: command text and a scope. Out: what `sh` is given. Read first: `commands.py`.
"""

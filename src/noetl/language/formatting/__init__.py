"""Formatting: the same playbook in one layout, every comment kept.

Read first: `formatter.py`; `noetl.language.layout` takes the text apart and writes it.
"""

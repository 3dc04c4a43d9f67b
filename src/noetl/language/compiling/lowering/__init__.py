"""Lowering: checked document parts become parts of the net, each dialect's defaults made explicit.

Read first: `nets.py`, `steps.py`, `tasks.py`.
"""

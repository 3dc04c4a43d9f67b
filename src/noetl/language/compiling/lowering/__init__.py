"""Lowering: checked document parts become parts of the net, each dialect's defaults made explicit. The net itself is
made in `language/compiling/compiler.py`.

Read first: `steps.py`, `tasks.py`.
"""

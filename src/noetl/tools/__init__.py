"""Tools: each runs one task.

In: rendered inputs and a context. Out: exactly one outcome. Built-in and third-party tools implement `contract.py`.
`registry.py` finds the tool of a kind and imports it on first use; `kinds/` declares the inputs of each kind as data.
A tool renders no template, opens no store of NoETL and calls no server of it; SQL comes with its values apart
(`templates/sql`).

Read first: `contract.py`, `registry.py`, `plugin.py` (the plug-in API).
"""

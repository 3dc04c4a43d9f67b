"""Tools: what runs one task.

In: rendered inputs and a context. Out: exactly one outcome. `contract.py` is what built-in and third-party tools
implement; `registry.py` finds a tool by its kind and imports it on first use; `kinds/` declares inputs as data.
Refuses to know: templates, stores, servers.

Read first: `contract.py`, `registry.py`, `plugin.py` (the plug-in API).
"""

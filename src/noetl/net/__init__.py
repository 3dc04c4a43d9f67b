"""The net: a compiled playbook as plain data, with a content hash.

These are frozen structs that serialise to JSON: steps, tasks, policies, arcs, waits. `language` makes them; engine,
worker and control plane read them.
Refuses to know: the text it came from, how it is run, where it is stored.

Read first: `net.py` (the net and its transitions), `task.py` (tasks and policies), `routing.py` (arcs and joins).
"""

"""The net: a compiled playbook as plain data, with a content hash.

In: nothing; `language` builds it. Out: steps, tasks, policies, arcs, waits, as frozen structs that serialise to JSON.
Refuses to know: the text it came from, how it is run, where it is stored.

Read first: `net.py` (the net and its transitions), `task.py` (tasks and policies), `routing.py` (arcs and joins).
"""

"""The language: playbook text in, a checked and proven net out.

`reading` turns text of any dialect into a document with source positions, `compiling` turns the document into a net,
`proving` looks for deadlocks and endless cycles, `migrating` rewrites older dialects as v10, `formatting` lays a text
out and keeps the comments for both, `drawing` draws a net, `grammar` is the table of all keys, `v2_case` has
all that this older dialect needs. `checking.py` runs all of it.
Pure: no I/O, no clock, no `await`; only `checking.py` can be given a path, and reads the file.
Refuses to know: executions, workers, stores.

Read first: `checking.py`, `reading/reader.py`, `compiling/compiler.py`.
"""

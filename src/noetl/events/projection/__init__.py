"""The projection of an event log: the one fold that views are made from.

In: events of one execution, one by one, and those of executions nested in it. Out: its step runs with their tasks and
loops, what its tokens wait for, and what runs beside them. The live view and `noetl status`, the timeline, the list of
runs, the traces and the web UI draw what it holds; none of them reads meaning from events again.

Pure, and an event costs the same whatever came before it. Refuses to know: stores, words for people, formats.

Read first: `projection.py` (the fold), `views.py` (what it holds), `state_history.py` (what it was after each event).
"""

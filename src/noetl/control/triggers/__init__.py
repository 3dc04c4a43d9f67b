"""Triggers: playbooks that start by themselves when something new arrives.

In: triggers as records, tools that can be polled. Out: executions, exactly one for each item. Refuses to know: kinds
of tools, HTTP.

Read first: `triggers.py` (who polls when), `turns.py` (one look of one trigger), `trigger_store.py` (what is kept).
"""

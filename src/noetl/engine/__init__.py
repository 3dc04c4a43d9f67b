"""The engine: pure decisions about executions.

`decide(plan, execution, command)` returns events and effects; `evolve(execution, event)` is the only code that changes
an execution, in place, at constant cost per event. `advance` repeats both until nothing is left to decide.
No I/O, no clock, no `await`: commands carry the time. Refuses to know: stores, workers, tools, HTTP.

`waits`, `loops`, `side_runs` and `pipeline` are the larger rules; `v2_case` is an older dialect.

Read first: `decide.py`, `evolve.py`, `execution.py`; then the rule you care about: `routing.py`, `joins.py`,
`admission.py`.
"""

"""v2-case at run time: the behaviour of a step between its entry and its end, as pure functions.

    step.enter → call with retries → call.done | call.error → sink → vars → step.exit → else → next

A walk (`CaseWalk`) is given the outcome of a task. It evaluates rules and retry policies, and stops where a tool is
needed or the step run is over. Its position is recorded with every task. The worker runs the tasks that a walk asks for
(`worker/v2_case_run.py`) and reports the transition that a rule takes; only the server makes tokens of it
(`routing.py`). A walk knows no tools and no clock.

The engine calls `port.py` about steps, and about executions `evolution.py` (state), `routing.py` (tokens)
and `listeners.py` (reports, and steps that wait for events). Nothing else here is imported from outside, but by
`worker/v2_case_run.py`, which is part of the dialect.
Read first: `walk.py`, `rules.py`, `routing.py`.
"""

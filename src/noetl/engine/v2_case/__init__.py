"""v2-case at run time: what a step of this dialect does between its entry and its end, as pure functions.

    step.enter → call with retries → call.done | call.error → sink → vars → step.exit → else → next

A walk goes from one task to the next: it takes the outcome, evaluates rules and retry policies, and stops where a tool
is needed or the step run is over. Where it stands is recorded with every task. Tools, clocks and tokens are not known
here: the worker runs what a walk asks for (`worker/v2_case_run.py`), and only the server makes tokens of the transition
it reports.

The engine calls `port.py` about steps, and about executions `evolution.py` (state), `routing.py` (tokens)
and `listeners.py` (reports, and steps that wait for events). Nothing else here is imported from outside, but by
`worker/v2_case_run.py`, which is part of the dialect.
Read first: `walk.py`, `rules.py`, `routing.py`.
"""

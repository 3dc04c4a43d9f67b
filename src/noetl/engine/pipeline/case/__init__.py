"""Case runs: what a v2-case step does between its entry and its end, as pure functions.

    step.enter → call with retries → call.done | call.error → sink → vars → step.exit → else → next

A walk goes from one task to the next: it takes the outcome, evaluates rules and retry policies, and stops where a tool
is needed or the step run is over. Where it stands is recorded with every task. Tools, clocks and tokens are not known
here: the worker runs what a walk asks for, and only the server makes tokens of the transition it reports.

Read first: `walk.py`, `rules.py`, then `worker/case_run.py` and `engine/case_routing.py`.
"""

"""The control plane: the I/O around the engine. Load, decide, commit, dispatch.

In: commands for executions (start, report, message, timer due, pause). Out: committed events, and only then effects:
wake-ups are sent, claimed orders are handed over, listeners are notified. Refuses to know: HTTP.

`commit` decides and stores, `claiming` gives orders to workers, `background` looks for what crashed processes left
and deletes what is old enough, `schedule` has timers and schedules, `outside` messages and human tasks, `nested` starts
and child executions, `limits` concurrency of playbooks, `results` large values, `secrets` what an order may read,
`views` where tokens stand, `triggers` playbooks that start when something arrives, `notifications` who is told of a
failed or late execution.

`assembly.py` makes all objects of it, for embedded runs, servers and tests. Each is complete after its constructor;
`tests/control/test_assembly.py` holds that nothing is assigned to it from outside afterwards.

Read first: `executions.py` (the public face), `commit/group_commit.py` (many commands, one transaction),
`claiming/claims.py` (which worker gets which order).
"""

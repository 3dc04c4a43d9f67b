"""The control plane: the I/O around the engine. Load, decide, commit, dispatch.

In: commands for executions (start, report, message, timer due, pause). Out: committed events, and only then effects:
wake-ups are sent, claimed orders are handed over, listeners are notified. Refuses to know: HTTP.

`commit` decides and stores. `claiming` gives orders to workers. `background` finds the work of crashed processes and
deletes old executions. `outside` has messages and human tasks, `nested` has child executions and reruns, `secrets` says
which secrets an order may read, and masks them in reports. `views` shows tokens, side runs, live output and the inputs
of attempts. `notifications` informs people of failed and late executions. `timers.py` wakes executions, `schedules.py`
and `triggers.py` start playbooks when a time has come or something arrives, and `playbook_limits.py` bounds how many
executions of a playbook run at once.

`assembly.py` builds all objects, for embedded runs, servers and tests. Each is complete after its constructor;
`tests/control/test_assembly.py` checks that nothing is assigned to it from outside afterwards.

Read first: `executions.py` (the public face), `commit/group_commit.py` (many commands, one transaction),
`claiming/claims.py` (which worker gets which order).
"""

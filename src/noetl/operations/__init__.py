"""Everything a person or program can ask for, once: the same functions answer HTTP routes and the command line.

In: a store, a clock, and a `TakesCommands` that decides commands (the control plane of a server, or the process that
drives the executions of a local store). Out: the shapes of the API. Rules and limits of requests are here, except
for starting an execution on a server (`server/start_requests.py`) and steering many at once
(`server/execution_control.py`). This package refuses to know HTTP, the tokens of requests, command-line options and
printed tables.

One module per noun: `executions`, `results` (with variables and logs), `catalog`, `triggers` (with schedules), `waits`
(timers, messages, human tasks), `limits`, `credentials`, `tokens` (with the audit log), `webhooks`, `notifications`.
`embedded.py` runs playbooks here: store, control plane and worker in one process, for `noetl run`, `noetl.run()` and
the pytest plug-in.

Read first: `api_shapes.py` (the answers, for server, client and `-o json`; those for administrators are in
`administration_shapes.py`), `local.py` and `local_administration.py` (the calls of the client, on a local store),
`triggers.py`.
"""

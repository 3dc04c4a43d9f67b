"""Everything a person or program can ask for, once: the same functions answer HTTP routes and the command line.

In: a store, a clock, and who decides commands (`TakesCommands`: the control plane of a server, or whoever drives the
executions of a local store). Out: the shapes of the API. Rules and limits of requests are here and nowhere else. It
refuses to know HTTP, tokens of requests, options and tables.

One module per noun: `executions`, `results` (with variables and logs), `catalog`, `schedules`, `triggers`, `waits`
(timers, messages, human tasks), `limits`, `credentials`, `tokens` (with the audit log), `webhooks`, `notifications`.
`embedded.py` runs playbooks here: store, control plane and worker in one process, for `noetl run`, `noetl.run()` and
the pytest plug-in.

Read first: `api_shapes.py` (the answers, for server, client and `-o json`; those for administrators are in
`administration_shapes.py`), `local.py` and `local_administration.py` (the calls of the client, on a local store),
`schedules.py`.
"""

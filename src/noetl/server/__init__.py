"""The HTTP server: routes, access, streaming, static files.

In: requests. Out: answers as JSON or problem+json. Routes parse, call `operations` and answer; they decide nothing
about executions. Starts go to the control plane through `start_requests.py`, with quotas and idempotency keys.
`views` turns logs and states into the shapes that screens draw.
Every request passes `access/gate.py` before any route runs; a route without a rule in `access/roles.py` is closed.

Read first: `app.py`, `server_process.py`, `access/gate.py`.
"""

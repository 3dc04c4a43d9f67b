"""Embedded runs: store, control plane and worker in one process.

`embedded.py` opens them and runs playbooks. It is what `noetl run`,
`noetl.run()` and the pytest plug-in use.
`api_shapes.py` states the answers of the HTTP API once, for the server, the client and `-o json`.
"""

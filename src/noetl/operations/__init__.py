"""Embedded runs: store, control plane and worker in one process.

`embedded.py` opens them and runs playbooks. It is what `noetl run`,
`noetl.run()` and the pytest plug-in use.
"""

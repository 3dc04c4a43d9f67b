"""Operations: what a person or a program can ask for, implemented once.

`embedded.py` runs playbooks in this process: store, control plane and worker together. It is what `noetl run`,
`noetl.run()` and the pytest plug-in use.
"""

"""`pgp`: encrypts and decrypts files for partners who ask for OpenPGP, with Sequoia in a child process. Read first:
`tool.py`, `child.py`."""

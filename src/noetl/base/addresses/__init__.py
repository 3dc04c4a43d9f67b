"""Which addresses may be reached, decided once for every tool that opens a connection and for token requests.

`policy` judges an address and touches nothing. `guard` looks a host up, judges every address it has, and gives those
that may be connected to; tools connect to these and look nothing up again. They do not read the operator's settings.

Read first: `policy.py`, `guard.py`.
"""

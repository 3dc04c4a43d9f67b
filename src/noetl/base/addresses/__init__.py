"""Which addresses may be reached, decided once for every tool that opens a connection and for token requests.

`AddressPolicy` judges an address and touches nothing. `AddressGuard` looks a host up, judges every address it has, and
returns those that may be connected to; tools connect to these and look nothing up again. Neither reads the operator's
settings: callers give them.

Read first: `policy.py` (both classes), `connections.py`.
"""

"""Which addresses may be reached, decided once for every tool that opens a connection and for token requests.

`AddressPolicy` judges an address without looking anything up. `AddressGuard` looks a host up, judges every address it
has, and returns those that may be connected to; tools connect to these and look nothing up again. Callers say what the
operator allows; where they name no proxies, those of the settings are taken.

Read first: `policy.py` (both classes), `connections.py`.
"""

"""Which addresses may be reached, decided once for every tool that opens a connection and for token requests.

`policy` judges an address and touches nothing. `guard` looks a host up, judges every address it has, and gives those
that may be connected to; whoever connects uses these and looks nothing up again. Tools know neither operator nor flag.
"""

"""One module per resource of the API. Read first: `executions.py`, `orders.py` (the worker's side), `streams.py`."""

"""The Python client of a server: `noetl.Client` for scripts and notebooks, `noetl.AsyncClient` for event loops.

The command line talks to servers through it and through nothing else. `make client` writes the blocking client from the
asynchronous one. Read first: `async_client.py`, `async_calls.py`, `requests.py`.
"""

from noetl.client.async_client import AsyncClient
from noetl.client.blocking_client import Client
from noetl.client.errors import ApiError, UnreachableError

__all__ = ["ApiError", "AsyncClient", "Client", "UnreachableError"]

"""The Python client of a server: `noetl.Client` for scripts and notebooks, `noetl.AsyncClient` for event loops.

The command line talks to servers through it; `noetl doctor` alone looks whether one answers without it. `make client`
writes the blocking client from the asynchronous one. In: the address of a server and a token. Out: the shapes of the
API (`operations/api_shapes.py`). It refuses to know options and tables, and opens no store. Read first:
`async_client.py`, `async_calls.py`, `requests.py` (what is sent for each call; `administration_requests.py` for
administrators).
"""

from noetl.client.api_request import ApiError, UnreachableError
from noetl.client.async_client import AsyncClient
from noetl.client.blocking_client import Client

__all__ = ["ApiError", "AsyncClient", "Client", "UnreachableError"]

#!/opt/noetl/bin/python
"""Whether the process of this container is well: exit code 0, or 1 with the reason on standard error.

A server must answer that it is ready. A worker listens on no port, so it must be alive, which its record in the state
folder tells. The address of a server is taken from its own record, so a chosen port needs no second setting.
"""

import ssl
import sys
import urllib.error
import urllib.request

from noetl.cli.processes import listed  # what `noetl server status` shows, without the start of a command

TIMEOUT_S = 4


def problem_of_server(url: str) -> str | None:
    """Why the server is not ready, None when it is."""
    scheme, _, authority = url.partition("://")
    port = authority.rpartition(":")[2]
    # The certificate names the host that people use, and this request does not leave the container.
    unverified = ssl._create_unverified_context() if scheme == "https" else None
    try:
        with urllib.request.urlopen(
            f"{scheme}://127.0.0.1:{port}/api/health/ready", timeout=TIMEOUT_S, context=unverified
        ):
            return None
    except urllib.error.HTTPError as refused:
        return refused.read(2000).decode(errors="replace")
    except OSError as problem:
        return str(problem)


def main() -> int:
    servers = listed("server")
    problems = [found for one in servers if (found := problem_of_server(one.url)) is not None]
    if not servers and not listed("worker"):
        problems = ["neither a server nor a worker runs here"]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

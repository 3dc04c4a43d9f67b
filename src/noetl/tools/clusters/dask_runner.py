"""What runs where distributed is installed: a client that hands one call to a cluster. It imports nothing of NoETL.

The code runs on a worker of the cluster, and its result is made JSON there: what comes back from the cluster is
unpickled in this process alone, which ends with the task.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any


def call(code: str, function: str, args: dict[str, Any]) -> str:
    """On the cluster: the result of `function`, else the value of `result`, as JSON."""
    import json

    import distributed

    names: dict[str, Any] = {"__name__": "noetl_task", "print": distributed.print, **args}
    exec(compile(code, "<task>", "exec"), names)  # noqa: S102  the code of the playbook
    if callable(names.get(function)):
        result = names[function](**args)
    elif "result" in names:
        result = names["result"]
    else:
        raise NameError(f"the code has neither a function {function} nor a value called result")
    return json.dumps(result)


def _answered(request: dict[str, Any], folder: str) -> dict[str, Any]:
    try:
        from distributed import Client
        from distributed.security import Security
    except ImportError as problem:
        return {"error": {"kind": "missing", "message": f"this interpreter has no distributed: {problem}"}}
    tls = request.get("tls")
    security = None
    if tls:
        files = {name: os.path.join(folder, f"{name}.pem") for name in tls}
        for name, text in tls.items():
            Path(files[name]).write_text(text)
        security = Security(require_encryption=True, **{f"tls_{name}": file for name, file in files.items()})
    try:
        client = Client(request["address"], timeout=request["connect_s"], security=security, set_as_default=False)
    except (OSError, TimeoutError) as problem:
        return {
            "error": {"message": f"the scheduler was not reached: {problem}", "code": "connection", "retryable": True}
        }
    with client:
        return {"workers": len(client.ncores())} if request.get("checks") else _result(client, request)


def _result(client: Any, request: dict[str, Any]) -> dict[str, Any]:
    from distributed import CancelledError, KilledWorker

    # `call` goes by value, since this file is the main program: the workers of the cluster do not have it.
    future = client.submit(
        call,
        *(request["code"], request["function"], request["args"]),
        key=request["key"],
        pure=False,
        retries=request["retries"],
        resources=request["needs"] or None,
    )
    try:
        text = future.result()
    except (KilledWorker, CancelledError) as problem:
        return {"error": {"message": f"the cluster lost the task: {problem}", "code": "lost", "retryable": True}}
    except Exception as problem:
        return {
            "error": {
                "kind": "failed",
                "message": f"{type(problem).__name__}: {problem}",
                "code": type(problem).__name__,
            }
        }
    if len(text) > request["max_bytes"]:
        return {
            "error": {"message": f"the result has {len(text)} bytes, more than {request['max_bytes']}", "code": "size"}
        }
    return {"result": json.loads(text)}


def main() -> None:
    file, request = Path(sys.argv[1]), json.load(sys.stdin)
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        try:
            answer = _answered(request, folder)
        except Exception as problem:
            answer = {"error": {"message": f"{type(problem).__name__}: {problem}", "code": "client"}}
    file.write_text(json.dumps(answer))


if __name__ == "__main__":
    main()

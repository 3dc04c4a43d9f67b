"""What runs where Ray is installed: a client that hands one call to a cluster. It imports nothing of NoETL.

The code runs on a worker of the cluster, and its result is made JSON there: what comes back from the cluster is
unpickled in this process alone, which ends with the task.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_LOGS_S = 1.0  # what a task prints comes by another way than its result, and later


def call(code: str, function: str, args: dict[str, Any]) -> str:
    """On the cluster: the result of `function`, else the value of `result`, as JSON."""
    import json

    names: dict[str, Any] = {"__name__": "noetl_task", **args}
    exec(compile(code, "<task>", "exec"), names)  # noqa: S102  the code of the playbook
    if callable(names.get(function)):
        result = names[function](**args)
    elif "result" in names:
        result = names["result"]
    else:
        raise NameError(f"the code has neither a function {function} nor a value called result")
    return json.dumps(result)


def _answered(request: dict[str, Any]) -> dict[str, Any]:
    os.environ |= {"RAY_COLOR_PREFIX": "0", "RAY_DEDUP_LOGS": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    try:
        import ray
    except ImportError as problem:
        return {"error": {"kind": "missing", "message": f"this interpreter has no ray: {problem}"}}
    try:
        _knock(request)
        ray.init(request["address"], log_to_driver=True, logging_level="ERROR")
    except (ConnectionError, OSError, TimeoutError) as problem:
        message = f"the cluster was not reached: {problem}"
        return {"error": {"message": message, "code": "connection", "retryable": True}}
    if request.get("checks"):
        return {"workers": sum(node.get("Alive") is True for node in ray.nodes())}
    try:
        return _result(ray, request)
    finally:
        time.sleep(_LOGS_S)
        ray.shutdown()


def _knock(request: dict[str, Any]) -> None:
    """Raise OSError where nobody listens: Ray itself asks three times, for a minute, before it says so."""
    place = urlsplit(request["address"])
    socket.create_connection((str(place.hostname), int(place.port or 0)), timeout=request["connect_s"]).close()


def _result(ray: Any, request: dict[str, Any]) -> dict[str, Any]:
    retries = request["retries"]
    remote = ray.remote(max_retries=retries, retry_exceptions=retries > 0, **_options(request["needs"]))(call)
    try:
        text = ray.get(remote.remote(request["code"], request["function"], request["args"]))
    except ray.exceptions.RayTaskError as problem:
        cause = getattr(problem, "cause", None) or problem
        kind = type(cause).__name__
        return {"error": {"kind": "failed", "message": f"{kind}: {cause}", "code": kind}}
    except (ray.exceptions.RayError, ConnectionError) as problem:
        return {"error": {"message": f"the cluster lost the task: {problem}", "code": "lost", "retryable": True}}
    if len(text) > request["max_bytes"]:
        message = f"the result has {len(text)} bytes, more than {request['max_bytes']}"
        return {"error": {"message": message, "code": "size"}}
    return {"result": json.loads(text)}


def _options(needs: dict[str, Any]) -> dict[str, Any]:
    """Ray has names of its own for three of them."""
    own = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
    options: dict[str, Any] = {own[name]: value for name, value in needs.items() if name in own}
    others = {name: value for name, value in needs.items() if name not in own}
    return options | ({"resources": others} if others else {})


def main() -> None:
    file, request = Path(sys.argv[1]), json.load(sys.stdin)
    try:
        answer = _answered(request)
    except Exception as problem:
        answer = {"error": {"message": f"{type(problem).__name__}: {problem}", "code": "client"}}
    file.write_text(json.dumps(answer))


if __name__ == "__main__":
    main()

"""The program that runs where distributed or Ray is installed: a client that hands one call to a cluster. It imports
nothing of NoETL.

The code runs on a worker of the cluster, and its result is made JSON there: the response of the cluster is unpickled in
this process alone, which ends with the task.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_LOGS_S = 1.0  # output of a Ray task arrives separately from its result, and later


def call(request: dict[str, Any]) -> str:
    """On the cluster: the result of the function, else the value of `result`, as JSON."""
    # This function is sent by value, without the imports of this file: the workers of the cluster do not have it.
    import json

    names: dict[str, Any] = {"__name__": "noetl_task", **request["args"]}
    if request["kind"] == "dask":
        import distributed

        # Dask forwards only what its own `print` writes; Ray forwards the standard streams.
        names = {"print": distributed.print, **names}
    exec(compile(request["code"], "<task>", "exec"), names)  # noqa: S102  the code of the playbook
    function = request["function"]
    if callable(names.get(function)):
        result = names[function](**request["args"])
    elif "result" in names:
        result = names["result"]
    else:
        raise NameError(f"the code has neither a function {function} nor a value called result")
    return json.dumps(result)


def _work(request: dict[str, Any]) -> dict[str, Any]:
    """The part of a request that is sent to the cluster: without the key of the client's certificate."""
    return {name: request[name] for name in ("kind", "code", "function", "args")}


def _dask_answer(request: dict[str, Any], folder: str) -> dict[str, Any]:
    try:
        from distributed import Client
        from distributed.security import Security
    except ImportError as problem:
        return _missing("distributed", problem)
    tls = request.get("tls")
    security = None
    if tls:
        files = {name: os.path.join(folder, f"{name}.pem") for name in tls}
        for name, text in tls.items():
            Path(files[name]).write_text(text)
        security = Security(require_encryption=True, **{f"tls_{name}": file for name, file in files.items()})
        if (refusal := _refusal(request, files)) is not None:
            return _denial_error(refusal)
    try:
        client = Client(request["address"], timeout=request["connect_s"], security=security, set_as_default=False)
    except (OSError, TimeoutError) as problem:
        return _unreachable_error("scheduler", problem)
    with client:
        return {"workers": len(client.ncores())} if request.get("checks") else _dask_result(client, request)


def _dask_result(client: Any, request: dict[str, Any]) -> dict[str, Any]:
    from distributed import CancelledError, KilledWorker

    future = client.submit(
        call,
        _work(request),
        key=request["key"],
        pure=False,
        retries=request["retries"],
        resources=request["needs"] or None,
    )
    try:
        text = future.result()
    except (KilledWorker, CancelledError) as problem:
        return _lost_connection_error(problem)
    except Exception as problem:
        return _author_error(problem)
    return _result(text, request)


def _ray_answer(request: dict[str, Any]) -> dict[str, Any]:
    os.environ |= {"RAY_COLOR_PREFIX": "0", "RAY_DEDUP_LOGS": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    try:
        import ray
    except ImportError as problem:
        return _missing("ray", problem)
    try:
        _probe(request)
        ray.init(request["address"], log_to_driver=True, logging_level="ERROR")
    except (ConnectionError, OSError, TimeoutError) as problem:
        return _unreachable_error("cluster", problem)
    if request.get("checks"):
        return {"workers": sum(node.get("Alive") is True for node in ray.nodes())}
    try:
        return _ray_result(ray, request)
    finally:
        # Shutting down at once would lose the last lines that the task printed.
        time.sleep(_LOGS_S)
        ray.shutdown()


def _refusal(request: dict[str, Any], files: dict[str, str]) -> Exception | None:
    """Why the certificates do not fit; None if they fit, or if nothing answers. In Dask, only the text of an error
    shows whether it was a refusal or a lost connection, if at all."""
    place = urlsplit(request["address"])
    try:
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=files["ca_file"])
        context.check_hostname = False  # as in Dask: its certificates belong to the cluster, not to a host
        context.load_cert_chain(files["client_cert"], files["client_key"])
        with (
            socket.create_connection((str(place.hostname), int(place.port or 0)), timeout=request["connect_s"]) as line,
            context.wrap_socket(line) as secured,
        ):
            # The scheduler speaks first. With TLS 1.3 a client only learns here that its own certificate is refused.
            secured.recv(1)
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
        return None  # lost in the middle
    except ssl.SSLError as problem:
        return problem
    except OSError:
        return None
    return None


def _probe(request: dict[str, Any]) -> None:
    """Raise OSError if nothing listens at the address: Ray itself tries three times, for a minute, before it fails."""
    place = urlsplit(request["address"])
    socket.create_connection((str(place.hostname), int(place.port or 0)), timeout=request["connect_s"]).close()


def _ray_result(ray: Any, request: dict[str, Any]) -> dict[str, Any]:
    retries = request["retries"]
    remote = ray.remote(max_retries=retries, retry_exceptions=retries > 0, **_ray_options(request["needs"]))(call)
    try:
        text = ray.get(remote.remote(_work(request)))
    except ray.exceptions.RayTaskError as problem:
        return _author_error(getattr(problem, "cause", None) or problem)
    except (ray.exceptions.RayError, ConnectionError) as problem:
        return _lost_connection_error(problem)
    return _result(text, request)


def _ray_options(needs: dict[str, Any]) -> dict[str, Any]:
    """Ray has names of its own for three of them."""
    own = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
    options: dict[str, Any] = {own[name]: value for name, value in needs.items() if name in own}
    others = {name: value for name, value in needs.items() if name not in own}
    return options | ({"resources": others} if others else {})


def _result(text: str, request: dict[str, Any]) -> dict[str, Any]:
    if len(text) > request["max_bytes"]:
        message = f"the result has {len(text)} bytes, more than {request['max_bytes']}"
        return {"error": {"message": message, "code": "size"}}
    return {"result": json.loads(text)}


def _author_error(problem: BaseException) -> dict[str, Any]:
    """The error of the author's code."""
    name = type(problem).__name__
    return {"error": {"kind": "failed", "message": f"{name}: {problem}", "code": name}}


def _denial_error(problem: BaseException) -> dict[str, Any]:
    return {"error": {"kind": "denied", "message": f"TLS with the scheduler failed: {problem}", "code": "certificate"}}


def _lost_connection_error(problem: BaseException) -> dict[str, Any]:
    return {"error": {"message": f"the cluster lost the task: {problem}", "code": "lost", "retryable": True}}


def _missing(package: str, problem: BaseException) -> dict[str, Any]:
    return {"error": {"kind": "missing", "message": f"this interpreter has no {package}: {problem}"}}


def _unreachable_error(what: str, problem: BaseException) -> dict[str, Any]:
    return {"error": {"message": f"the {what} was not reached: {problem}", "code": "connection", "retryable": True}}


def main() -> None:
    file, request = Path(sys.argv[1]), json.load(sys.stdin)
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        try:
            answer = _dask_answer(request, folder) if request["kind"] == "dask" else _ray_answer(request)
        except Exception as problem:
            answer = {"error": {"message": f"{type(problem).__name__}: {problem}", "code": "client"}}
    file.write_text(json.dumps(answer))


if __name__ == "__main__":
    main()

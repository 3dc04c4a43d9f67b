"""A stand-in for the Job API of Kubernetes: no cluster can run here, and no image be pulled.

It answers what an API server answers of Jobs, their pods, logs and Secrets, over TLS, to one token. Every manifest is
checked against the schemas of two versions of Kubernetes, strictly, before it is taken. A pod is one process of this
machine that runs the container's command, with its variables (a Secret's too, which it waits for, as a pod does).
Deleting a Job ends its process and deletes what the Job owns. It is no proof that a cluster agrees.
"""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import tempfile
import threading
import time
import uuid
import warnings
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.servers.certificates import make_certificates

TOKEN = "the token of the service account"
VERSIONS = ("1.29", "1.37")
NAMESPACE = "jobs"


def check_manifest(manifest: dict[str, Any]) -> None:
    """ValidationError where a version of Kubernetes would refuse it, or would not know one of its fields."""
    kubernetes_validate = pytest.importorskip(
        "kubernetes_validate", reason="NOT TESTED: make test installs requirements-deploy.lock"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for version in VERSIONS:
            kubernetes_validate.validate(manifest, version, strict=True)


class _Pod:
    """The pod of one Job. `told` replaces the container state of the stand-in."""

    def __init__(self, job: dict[str, Any], log: Path) -> None:
        self.job, self.log = job, log
        self.name = f"{job['metadata']['name']}-{uuid.uuid4().hex[:5]}"
        self.process: subprocess.Popen[bytes] | None = None
        self.told: dict[str, Any] | None = None

    def start(self, secrets: dict[str, dict[str, Any]]) -> None:
        """Once all its Secrets are there."""
        container = self.job["spec"]["template"]["spec"]["containers"][0]
        environment = {"PATH": os.environ["PATH"]}
        for one in container.get("env", ()):
            reference = one.get("valueFrom", {}).get("secretKeyRef")
            if reference is None:
                environment[one["name"]] = one["value"].replace("$$(", "$(")
            elif reference["name"] not in secrets:
                return
            else:
                environment[one["name"]] = secrets[reference["name"]]["stringData"][reference["key"]]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*container["command"], *container.get("args", ())],
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def state(self) -> dict[str, Any]:
        if self.process is None:
            return {"waiting": {"reason": "ContainerCreating"}}
        code = self.process.poll()
        if code is None:
            return {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
        return {
            "terminated": {"exitCode": code if code >= 0 else 128 - code, "reason": "Error" if code else "Completed"}
        }

    def object(self) -> dict[str, Any]:
        status = self.told or {"phase": "Running", "containerStatuses": [{"name": "task", "state": self.state()}]}
        return {"kind": "Pod", "metadata": {"name": self.name}, "status": status}

    def end(self) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class KubernetesStandIn:
    """`jobs`, `secrets` and `pods` are what it holds. `pod_status` is what it says of every pod, where it is set;
    `answers` replaces the body of any answer whose path ends so."""

    def __init__(self, folder: Path) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.secrets: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, _Pod] = {}
        self.requests: list[tuple[str, str, bytes]] = []
        self.pod_status: dict[str, Any] | None = None
        self.answers: dict[str, bytes] = {}
        self.folder = Path(tempfile.mkdtemp(dir=folder))
        self.lock = threading.RLock()
        certificates = make_certificates(self.folder)
        self.ca = certificates.ca.read_text()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("_Bound", (_Handler,), {"cluster": self}))
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificates.cert, certificates.key)
        self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> KubernetesStandIn:
        self._thread.start()
        return self

    def __exit__(self, *how: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        for pod in self.pods.values():
            pod.end()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def auth(self) -> dict[str, Any]:
        server = f"https://localhost:{self.port}"
        return {"server": server, "token": TOKEN, "ca": self.ca, "namespace": NAMESPACE}

    def create(self, kind: str, manifest: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        try:
            check_manifest({**manifest, "metadata": {**manifest["metadata"], "namespace": NAMESPACE}})
        except Exception as problem:  # the validator's own classes
            return 422, _status(422, "Invalid", str(problem))
        name, held = manifest["metadata"]["name"], self.jobs if kind == "jobs" else self.secrets
        if name in held:
            return 409, _status(409, "AlreadyExists", f'{kind} "{name}" already exists')
        manifest["metadata"]["uid"] = str(uuid.uuid4())
        held[name] = manifest
        if kind == "jobs":
            self.pods[name] = _Pod(manifest, self.folder / f"{name}.log")
        return 201, manifest

    def list_pods(self, selector: str) -> list[dict[str, Any]]:
        pod = self.pods.get(selector.removeprefix("job-name="))
        if pod is None:
            return []
        pod.told = self.pod_status
        if pod.process is None and pod.told is None:
            pod.start(self.secrets)
        return [pod.object()]

    def delete(self, name: str) -> tuple[int, dict[str, Any]]:
        job = self.jobs.pop(name, None)
        if job is None:
            return 404, _status(404, "NotFound", f'jobs.batch "{name}" not found')
        self.pods.pop(name).end()
        uid = job["metadata"]["uid"]
        for secret, manifest in list(self.secrets.items()):
            if any(owner["uid"] == uid for owner in manifest["metadata"].get("ownerReferences", ())):
                del self.secrets[secret]
        return 200, {"kind": "Status", "status": "Success"}


def _status(code: int, reason: str, message: str) -> dict[str, Any]:
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}


class _Handler(BaseHTTPRequestHandler):
    cluster: KubernetesStandIn
    protocol_version = "HTTP/1.1"

    def log_message(self, *what: Any) -> None:
        """The log is not read."""

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urlsplit(self.path)
        self.cluster.requests.append((self.command, url.path, body))
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._send(401, _status(401, "Unauthorized", "Unauthorized"))
        elif url.path.endswith("/log"):
            self._send_log(url.path.split("/")[-2])
        else:
            with self.cluster.lock:
                answer = self._answer(url.path, parse_qs(url.query), body)
            self._send(*answer)

    do_GET = do_POST = do_DELETE = _handle  # noqa: N815  the names that the library calls

    def _answer(self, path: str, query: dict[str, list[str]], body: bytes) -> tuple[int, dict[str, Any]]:
        cluster = self.cluster
        jobs, core = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", f"/api/v1/namespaces/{NAMESPACE}"
        match self.command, path:
            case "POST", place if place in (jobs, f"{core}/secrets"):
                return cluster.create(place.rpartition("/")[2], json.loads(body))
            case "GET", place if place == jobs:
                return 200, {"kind": "JobList", "items": list(cluster.jobs.values())}
            case "GET", place if place == f"{core}/pods":
                return 200, {"kind": "PodList", "items": cluster.list_pods(query["labelSelector"][0])}
            case "GET", place if place.startswith(f"{jobs}/"):
                job = cluster.jobs.get(place.rpartition("/")[2])
                return (200, job) if job is not None else (404, _status(404, "NotFound", "not found"))
            case "DELETE", place if place.startswith(f"{jobs}/"):
                return cluster.delete(place.rpartition("/")[2])
        return 403, _status(403, "Forbidden", f"{self.command} {path} is forbidden")

    def _send(self, status: int, answer: dict[str, Any]) -> None:
        replaced = [body for end, body in self.cluster.answers.items() if urlsplit(self.path).path.endswith(end)]
        body = replaced[0] if replaced else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _send_log(self, name: str) -> None:
        """Follow the log until the process has ended."""
        pod = next(one for one in self.cluster.pods.values() if one.name == name)
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        pod.log.touch()  # with a given status, nothing ran
        with suppress(OSError), pod.log.open("rb") as log:
            while True:
                has_ended = pod.process is None or pod.process.poll() is not None
                if part := log.read(1 << 16):
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                elif has_ended:
                    break
                else:
                    time.sleep(0.02)
            self.wfile.write(b"0\r\n\r\n")

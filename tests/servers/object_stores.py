"""Object stores for tests, one of each for a test process: S3 by moto, Azure by Azurite, Google by a stand-in.

The emulators of Google's storage that can be installed speak its JSON API only, and the driver speaks the XML API: so
`google_xml` is our own, and no proof that Google answers alike.
"""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import cache
from typing import Any
from uuid import uuid4

import msgspec

from tests.servers.environments import node_environment, python_environment
from tests.servers.google_xml import GoogleStore
from tests.servers.programs import PORT, ServedProgram

AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="  # Azurite's own


class Bucket(msgspec.Struct, frozen=True):
    """A new, empty bucket: the URL of its root, the fields of a credential for it, and the port of its server."""

    url: str
    auth: dict[str, Any]
    port: int


@cache
def moto() -> ServedProgram:
    programs = python_environment("moto", "moto[s3,server]==5.2.5")
    return ServedProgram([str(programs / "moto_server"), "-H", "127.0.0.1", "-p", PORT])


@cache
def azurite() -> ServedProgram:
    programs = node_environment("azurite", "azurite@3.37.0")
    options = ["--blobHost", "127.0.0.1", "--blobPort", PORT, "--inMemoryPersistence"]
    return ServedProgram([str(programs / "azurite-blob"), *options, "--skipApiVersionCheck", "--disableTelemetry"])


@cache
def google() -> GoogleStore:
    return GoogleStore()


def s3_bucket() -> Bucket:
    name, port = f"bucket-{uuid4().hex[:12]}", moto().port
    scope = "AWS4-HMAC-SHA256 Credential=k/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=none"
    _send("PUT", f"http://127.0.0.1:{port}/{name}", {"Authorization": scope})
    keys = {"access_key_id": "test-key-id", "secret_access_key": "a secret of nobody", "region": "us-east-1"}
    return Bucket(f"s3://{name}", {"endpoint": f"http://127.0.0.1:{port}", **keys}, port)


def google_bucket() -> Bucket:
    store = google()
    auth = {"endpoint": f"http://127.0.0.1:{store.port}", "bearer_token": store.token}
    return Bucket(f"gs://{store.new_bucket()}", auth, store.port)


def azure_bucket() -> Bucket:

    name, port = f"container-{uuid4().hex[:12]}", azurite().port
    endpoint = f"http://127.0.0.1:{port}/{AZURE_ACCOUNT}"
    _make_container(endpoint, name)
    fields = {"account_name": AZURE_ACCOUNT, "account_key": AZURE_KEY, "endpoint": endpoint}
    return Bucket(f"az://{name}", fields, port)


def _make_container(endpoint: str, name: str) -> None:
    """Azure's Shared Key: a digest over the request line and its headers."""
    import base64
    import hashlib
    import hmac
    from email.utils import formatdate

    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2023-11-03"}
    canonical = "".join(f"{key}:{value}\n" for key, value in sorted(headers.items()))
    path = f"/{AZURE_ACCOUNT}/{AZURE_ACCOUNT}/{name}\nrestype:container"
    text = "PUT" + "\n" * 12 + canonical + path
    digest = hmac.new(base64.b64decode(AZURE_KEY), text.encode(), hashlib.sha256).digest()
    signed = f"SharedKey {AZURE_ACCOUNT}:{base64.b64encode(digest).decode()}"
    _send("PUT", f"{endpoint}/{name}?restype=container", {**headers, "Authorization": signed})


def _send(method: str, url: str, headers: dict[str, str]) -> None:
    request = urllib.request.Request(url, method=method, headers=headers)
    try:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60).close()
    except urllib.error.HTTPError as problem:
        said = re.sub(r"\s+", " ", problem.read().decode(errors="replace"))[:400]
        raise AssertionError(f"{method} {url}: {problem.code} {said}") from None


BUCKETS: dict[str, Callable[[], Bucket]] = {"s3": s3_bucket, "gs": google_bucket, "az": azure_bucket}

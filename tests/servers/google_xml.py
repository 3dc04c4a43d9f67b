"""A stand-in for Google Cloud Storage: the part of its XML API that the driver uses, with generations."""

from __future__ import annotations

import hashlib
import itertools
import threading
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import uuid4
from xml.sax.saxutils import escape

import msgspec

from tests.servers.at_end import stop_at_end


class StoredObject(msgspec.Struct):
    body: bytes
    generation: int
    media_type: str
    metadata: dict[str, str]
    written_at: datetime

    @property
    def etag(self) -> str:
        return f'"{hashlib.md5(self.body, usedforsecurity=False).hexdigest()}"'


class GoogleStore:
    """Buckets in memory behind a port. Every request needs the token."""

    def __init__(self) -> None:
        self.token = f"ya29.{uuid4().hex}"
        self.buckets: dict[str, dict[str, StoredObject]] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.generations = itertools.count(1)
        self.lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        stop_at_end(self._stop)

    def _stop(self) -> None:
        # Closed alone, its thread would ask a closed socket again and again.
        self._server.shutdown()
        self._server.server_close()

    def new_bucket(self) -> str:
        name = f"bucket-{uuid4().hex[:12]}"
        self.buckets[name] = {}
        return name

    def write(self, bucket: str, key: str, body: bytes, headers: dict[str, str]) -> StoredObject | None:
        """None where the generation is not the one the request expects."""
        with self.lock:
            there = self.buckets[bucket].get(key)
            expected = headers.get("x-goog-if-generation-match")
            if expected is not None and int(expected) != (there.generation if there else 0):
                return None
            metadata = {name: value for name, value in headers.items() if name.startswith("x-goog-meta-")}
            kept = StoredObject(
                body, next(self.generations), headers.get("content-type", ""), metadata, datetime.now(UTC)
            )
            self.buckets[bucket][key] = kept
            return kept


def _handler(store: GoogleStore) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _begin(self) -> bool:
            """Whether the request may go on; sets what every method needs."""
            parts = urlsplit(self.path)
            _, self.bucket, *rest = unquote(parts.path).split("/", 2)
            self.key = rest[0] if rest else ""
            self.query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
            self.told = {name.lower(): value for name, value in self.headers.items()}
            self.body = self.rfile.read(int(self.told.get("content-length", 0)))
            if self.told.get("authorization") != f"Bearer {store.token}":
                self._fail(401, "InvalidAuthentication", "Invalid credentials")
                return False
            if self.bucket not in store.buckets:
                self._fail(404, "NoSuchBucket", "The specified bucket does not exist.")
                return False
            return True

        def do_PUT(self) -> None:
            if not self._begin():
                return None
            if "partNumber" in self.query:
                store.uploads[self.query["uploadId"]][int(self.query["partNumber"])] = self.body
                return self._answer(200, headers={"etag": f'"{hashlib.md5(self.body).hexdigest()}"'})
            body = self.body
            if source := self.told.get("x-goog-copy-source"):
                bucket, key = unquote(source).lstrip("/").split("/", 1)
                if (found := store.buckets.get(bucket, {}).get(key)) is None:
                    return self._fail(404, "NoSuchKey", "The specified key does not exist.")
                body = found.body
            kept = store.write(self.bucket, self.key, body, self.told)
            if kept is None:
                return self._fail(412, "PreconditionFailed", "At least one of the pre-conditions did not hold.")
            return self._answer(200, headers={"etag": kept.etag, "x-goog-generation": str(kept.generation)})

        def do_POST(self) -> None:
            if not self._begin():
                return
            if "uploads" in self.query:
                upload = uuid4().hex
                store.uploads[upload] = {}
                self._answer(
                    200, f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
                )
                return
            parts = store.uploads.pop(self.query["uploadId"])
            kept = store.write(self.bucket, self.key, b"".join(parts[number] for number in sorted(parts)), self.told)
            assert kept is not None
            text = f"<CompleteMultipartUploadResult><ETag>{escape(kept.etag)}</ETag></CompleteMultipartUploadResult>"
            self._answer(200, text, headers={"x-goog-generation": str(kept.generation)})

        def do_GET(self) -> None:
            if self._begin():
                self._list() if not self.key else self._give(is_head=False)

        def do_HEAD(self) -> None:
            if self._begin():
                self._give(is_head=True)

        def do_DELETE(self) -> None:
            if not self._begin():
                return None
            if "uploadId" in self.query:
                store.uploads.pop(self.query["uploadId"], None)
            elif store.buckets[self.bucket].pop(self.key, None) is None:
                return self._fail(404, "NoSuchKey", "The specified key does not exist.")
            return self._answer(204)

        def _give(self, *, is_head: bool) -> None:
            found = store.buckets[self.bucket].get(self.key)
            if found is None:
                return self._fail(404, "NoSuchKey", "The specified key does not exist.", is_head=is_head)
            headers = {
                "etag": found.etag,
                "last-modified": format_datetime(found.written_at, usegmt=True),
                "content-type": found.media_type,
                "x-goog-generation": str(found.generation),
                **found.metadata,
            }
            first, end = 0, len(found.body)
            if wanted := self.told.get("range"):
                low, _, high = wanted.removeprefix("bytes=").partition("-")
                first, end = int(low), min(int(high) + 1, end) if high else end
                headers["content-range"] = f"bytes {first}-{end - 1}/{len(found.body)}"
            return self._answer(206 if wanted else 200, found.body[first:end], headers=headers, is_head=is_head)

        def _list(self) -> None:
            prefix, delimiter = self.query.get("prefix", ""), self.query.get("delimiter")
            after = max(self.query.get("start-after", ""), self.query.get("continuation-token", ""))
            entries, prefixes = [], set()
            for key, one in sorted(store.buckets[self.bucket].items()):
                if not key.startswith(prefix) or key <= after:
                    continue
                rest = key.removeprefix(prefix)
                if delimiter and delimiter in rest:
                    prefixes.add(prefix + rest.partition(delimiter)[0] + delimiter)
                    continue
                stamp = one.written_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
                entries.append(
                    f"<Contents><Key>{escape(key)}</Key><LastModified>{stamp}</LastModified>"
                    f"<ETag>{escape(one.etag)}</ETag><Size>{len(one.body)}</Size></Contents>"
                )
            common = "".join(
                f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in sorted(prefixes)
            )
            self._answer(200, f"<ListBucketResult>{''.join(entries)}{common}</ListBucketResult>")

        def _fail(self, status: int, code: str, message: str, *, is_head: bool = False) -> None:
            text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
            self._answer(status, text, is_head=is_head)

        def _answer(
            self, status: int, body: str | bytes = b"", *, headers: dict[str, str] | None = None, is_head: bool = False
        ) -> None:
            content = body.encode() if isinstance(body, str) else body
            self.send_response(status)
            for name, value in {"content-length": str(len(content)), **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            if not is_head:
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """The log is not read."""

    return Handler

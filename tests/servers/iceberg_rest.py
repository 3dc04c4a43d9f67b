"""STAND-IN: a REST catalogue of Iceberg, since no registry has a real one. It speaks the requests that reading takes,
as the specification of Iceberg's REST catalogue says, over a real SQL catalogue of pyiceberg. It is no proof that a
real catalogue answers alike.

    GET  /v1/config?warehouse=W                          the prefix is "ws"
    POST /v1/oauth/tokens                                client_credentials
    GET  /v1/ws/namespaces
    GET  /v1/ws/namespaces/N/tables/T                    with vended credentials, if they are asked for
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from tests.servers.lakes import bucket_tables, lakes_python
from tests.servers.programs import PORT, ServedProgram

TOKEN, CLIENT_ID, CLIENT_SECRET = "catalogue-token-1", "noetl", "catalogue-client-secret-1"

_PROGRAM = """
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError

port, catalogue, names, token, client, secret = sys.argv[1:]
names = json.loads(names)

class Catalogue(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, status, kind, message):
        self.answer(status, {"error": {"message": message, "type": kind, "code": status}})

    def do_POST(self):
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        known = {"grant_type": ["client_credentials"], "client_id": [client], "client_secret": [secret]}
        if self.path != "/v1/oauth/tokens" or {name: form.get(name) for name in known} != known:
            return self.answer(401, {"error": "invalid_client", "error_description": "unknown client"})
        self.answer(200, {"access_token": token, "token_type": "bearer", "expires_in": 3600})

    def do_GET(self):
        parts = urlsplit(self.path)
        if self.headers.get("Authorization") != f"Bearer {token}":
            return self.refuse(401, "NotAuthorizedException", "the token is not valid")
        path = [unquote(part) for part in parts.path.strip("/").split("/")]
        if path == ["v1", "config"]:
            return self.answer(200, {"defaults": {}, "overrides": {"prefix": "ws"}})
        catalog = SqlCatalog("shop", uri=f"sqlite:///{catalogue}", **names)
        if path == ["v1", "ws", "namespaces"]:
            return self.answer(200, {"namespaces": [list(one) for one in catalog.list_namespaces()]})
        if path[:3] != ["v1", "ws", "namespaces"] or len(path) != 6:
            return self.refuse(404, "NotFoundException", "no such path")
        try:
            table = catalog.load_table((*path[3].split("\\x1f"), path[5]))
        except NoSuchTableError:
            return self.refuse(404, "NoSuchTableException", "no such table")
        vends = self.headers.get("X-Iceberg-Access-Delegation") == "vended-credentials"
        metadata = json.loads(table.metadata.model_dump_json())
        vended = [{"prefix": table.location(), "config": names}] if vends else []
        self.answer(200, {
            "metadata-location": table.metadata_location, "metadata": metadata,
            "config": {}, "storage-credentials": vended,
        })

    def log_message(self, *_):
        pass

ThreadingHTTPServer(("127.0.0.1", int(port)), Catalogue).serve_forever()
"""


@cache
def rest_catalogue() -> ServedProgram:
    """A catalogue of the tables of `bucket_tables`."""
    bucket, folder = bucket_tables()
    auth = bucket.auth
    names = {"s3.endpoint": auth["endpoint"], "s3.access-key-id": auth["access_key_id"], "s3.region": "us-east-1"}
    names["s3.secret-access-key"] = auth["secret_access_key"]
    arguments = (f"{folder}/catalog.sqlite", json.dumps(names), TOKEN, CLIENT_ID, CLIENT_SECRET)
    return ServedProgram([lakes_python(), "-c", _PROGRAM, PORT, *arguments])


def rest_auth(**more: Any) -> dict[str, Any]:
    url = f"http://127.0.0.1:{rest_catalogue().port}"
    return {"url": url, "warehouse": "w", **({"token": TOKEN} if not more else {}), **more}

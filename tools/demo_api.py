"""A small API for `make demo` and for the tests of examples/: pages, a bad day now and then, jobs that take a while.

    with DemoApi() as api:
        …  # api.url

Every answer is computed from the path, so it is the same each time. Only the standard library is needed; as a program,
`python tools/demo_api.py`, it serves until it is stopped and says where.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "demo-token-4711"  # the token that /private requires
# orders of each shop
SHOPS = {"cairo": 95, "delhi": 150, "kyoto": 70, "lima": 40, "oslo": 130, "perth": 55, "quito": 60, "rome": 110}
LISTS = {"orders": 450, "returns": 60}
HOTELS = {"oslo": ["fjord", "harbour"], "rome": ["forum", "tiber", "villa"]}
ROOMS = ["single", "double"]
BUSY_EVERY = 7  # each seventh page is refused once, with Retry-After
ASKS_UNTIL_DONE = 3  # a job is done when it is asked for the third time

Answer = tuple[int, Any, dict[str, str]]


class DemoApi:
    """Serves on a free port, from a thread. `delay_s` makes it as slow as a real one; `asked` counts paths."""

    def __init__(self, *, port: int = 0, delay_s: float = 0.0) -> None:
        self.asked: Counter[str] = Counter()
        self._lock, self._pages, self._busy = threading.Lock(), 0, set[str]()
        self._delay_s = delay_s
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> DemoApi:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method: str, target: str, headers: dict[str, str]) -> Answer:
        """Status, body and further headers for one request."""
        parts = urlsplit(target)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        with self._lock:
            self.asked[parts.path] += 1
            match [method, *parts.path.strip("/").split("/")]:
                case ["GET", "shops", shop, "orders"] if shop in SHOPS:
                    return self._page(target, shop, SHOPS[shop], query)
                case ["GET", name] if name in LISTS:
                    return self._page(target, name, LISTS[name], query)
                case ["GET", "hotels"]:
                    cities = [{"name": city, "hotels": _hotels(city)} for city in HOTELS]
                    return 200, {"cities": cities}, {}
                case ["GET", "hotels", hotel, "rooms", room]:
                    return 200, {"hotel": hotel, "room": room, "price": _price(hotel, room)}, {}
                case ["GET", "customers", customer] if customer.isdigit():
                    return 200, {"id": int(customer), "name": f"customer {customer}"}, {}
                case ["GET", "broken", *_]:
                    return 500, {"error": "something broke in here"}, {}
                case ["POST", "jobs"]:
                    return 202, {"id": "report-1", "state": "queued"}, {}
                case ["GET", "jobs", job]:
                    done = self.asked[parts.path] % ASKS_UNTIL_DONE == 0
                    return 200, {"id": job, "state": "done" if done else "running", "rows": 128 if done else None}, {}
                case ["GET", "private"] if headers.get("authorization") == f"Bearer {TOKEN}":
                    return 200, {"user": "ada", "token": TOKEN}, {}
                case ["GET", "private"]:
                    return 401, {"error": "who are you?"}, {"WWW-Authenticate": "Bearer"}
                case ["GET", "readings"]:
                    rows = int(query.get("rows", 1000))
                    return 200, {"rows": [_reading(number) for number in range(rows)], "count": rows}, {}
        return 404, {"error": f"there is no {parts.path}"}, {}

    def _page(self, target: str, name: str, total: int, query: dict[str, str]) -> Answer:
        self._pages += 1
        if self._pages % BUSY_EVERY == 0 and target not in self._busy:
            self._busy.add(target)
            return 503, {"error": "too busy, try again"}, {"Retry-After": "1"}
        page, size = int(query.get("page", 1)), int(query.get("pageSize", 50))
        last = min(page * size, total)
        items = [_order(name, number) for number in range((page - 1) * size, last)]
        return 200, {"items": items, "page": page, "has_more": last < total}, {}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                time.sleep(api._delay_s)
                sent = {name.lower(): value for name, value in self.headers.items()}
                status, body, headers = api.answer(self.command, self.path, sent)
                text = json.dumps(body).encode()
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_POST = do_GET  # noqa: N815  http.server looks for these names

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  its parent's word
                """Say nothing: the terminal belongs to the run."""

        return Handler


def _order(shop: str, number: int) -> dict[str, Any]:
    return {"shop": shop, "id": number + 1, "customer": number * 7 % 50, "total": 5 + number * 13 % 90}


def _hotels(city: str) -> list[dict[str, Any]]:
    return [{"name": hotel, "rooms": ROOMS} for hotel in HOTELS[city]]


def _price(hotel: str, room: str) -> int:
    return 60 + sum(map(ord, hotel)) % 90 + 5 * len(room)


def _reading(number: int) -> dict[str, Any]:
    return {"sensor": f"s{number % 8}", "minute": number, "celsius": round(15 + number * 37 % 200 / 10, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve the API of the examples until Ctrl-C.")
    parser.add_argument("--port", type=int, default=8099, help="where to listen; 0 takes any free port (default: 8099)")
    with DemoApi(port=parser.parse_args().port) as api:
        print(f"serving on {api.url}; Ctrl-C ends it", flush=True)
        with suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()

"""Every example does what it says: it checks in silence, is formatted, and runs to the result its comment promises."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noetl.base.diagnostics import Source
from noetl.events.envelope import readable
from noetl.language.checking import check
from noetl.tools.kinds import KINDS
from tests.cli.running import call
from tests.examples.running import EXAMPLES, result_of, run_example
from tests.examples.running import api as serving
from tests.servers.lakes import lake_interpreters  # noqa: F401  a fixture
from tests.servers.postgres import pg_auth  # noqa: F401  a fixture
from tools.demo_api import LISTS, SHOPS, TOKEN, DemoApi

ON_PURPOSE = {"broken"}  # shows mistakes
FILES = sorted(file for file in EXAMPLES.glob("*.yaml") if not file.name.endswith(".test.yaml"))
GOOD = [file for file in FILES if file.stem not in ON_PURPOSE]
STORED = {"shops": len(SHOPS), "orders": sum(SHOPS.values())}


@pytest.fixture
def api() -> Iterator[DemoApi]:
    with serving() as served:
        yield served


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder of the test's own: master key and default store."""
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def warehouse(tmp_path: Path, pg_auth: dict[str, Any]) -> dict[str, Any]:  # noqa: F811
    """A stored credential, put there as the examples' comments say."""
    code, _, told = call(
        *("credential", "set", "warehouse", "--type", "postgres", "--db", str(tmp_path / "noetl.db")),
        stdin=json.dumps(pg_auth),
    )
    assert code == 0, told
    return pg_auth


# What they look like.


@pytest.mark.parametrize("file", GOOD, ids=lambda file: file.stem)
def test_an_example_has_no_findings_and_is_formatted(file: Path) -> None:
    checked = check(Source(file.name, file.read_text()), kinds=KINDS)

    assert [(d.code, d.line, d.message) for d in checked.diagnostics] == []
    assert call("fmt", "--check", str(file))[0] == 0


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_example_is_named_after_its_file_and_listed_in_the_readme(file: Path) -> None:
    text = file.read_text()

    assert f"\n  name: {file.stem}\n  path: examples/{file.stem}\n" in text
    assert f"`{file.name}`" in (EXAMPLES / "README.md").read_text()


def test_the_readme_names_only_existing_files() -> None:
    named = re.findall(r"`([\w/]+\.yaml)`", (EXAMPLES / "README.md").read_text())

    assert [name for name in named if not (EXAMPLES / name).exists()] == []


# What they do.


def test_the_hello_example_runs(tmp_path: Path) -> None:
    assert result_of("hello", tmp_path, name="you") == {"greeting": "hello, you"}


def test_flaky_retries_and_routes_by_the_result(tmp_path: Path) -> None:
    ran = run_example("flaky", tmp_path)

    assert ran.result.result == {"alarm": "12 is above 10"}
    assert ran.slept == [0.2, 0.4]
    assert result_of("flaky", tmp_path, threshold=20) == {"ok": 12}


@pytest.mark.req("LOOP-05", "POL-08", "TOOL-06")
def test_pages_are_stored_in_duckdb_once_even_when_run_twice(tmp_path: Path, api: DemoApi) -> None:
    ran = run_example("pages_to_duckdb", tmp_path, api_url=api.url)

    assert ran.result.ok, ran.result.error
    assert ran.result.result["stored"].items() >= STORED.items()
    assert ran.result.result["unknown_shops"] == ["atlantis"]
    assert 1 in ran.slept, "the API was busy, and said for how long"
    assert api.asked["/shops/atlantis/orders"] == 1
    assert result_of("pages_to_duckdb", tmp_path, api_url=api.url) == ran.result.result


def test_files_are_converted_and_packed(tmp_path: Path) -> None:
    result = result_of("convert_files", tmp_path)

    assert result["packed"] == ["orders.parquet", "orders.xlsx", "orders.xml"]
    assert [order["zip"] for order in result["orders"]] == ["0150", "15001", None]
    assert result["orders"][1]["lines"] == [{"sku": "cup", "n": "1"}, {"sku": "tea", "n": "1"}]
    assert (tmp_path / "orders.tar.gz").is_file()


@pytest.mark.req("RES-05")
def test_tables_are_passed_by_reference_and_not_through_the_log(tmp_path: Path) -> None:
    (row,) = result_of("move_tables", tmp_path, orders=2000)

    assert (row["orders"], row["is_same"]) == (2000, True)
    assert row["total"] == row["by_shop"] == 500250.0
    assert (tmp_path / "lake" / "orders.parquet").is_file()


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("lake_interpreters")
def test_a_lake_is_read_at_its_current_and_an_earlier_version(tmp_path: Path) -> None:
    (row,) = result_of("lake", tmp_path, orders=300)

    assert (row["orders"], row["total"]) == (300, 11212.5)
    assert row["after"] == 7475.0
    assert (tmp_path / "shop.ducklake").is_file()


@pytest.mark.req("LOOP-05", "POL-08", "TOOL-05", "KEY-05")
@pytest.mark.usefixtures("warehouse")
def test_pages_are_stored_in_postgres_once_even_when_run_twice(tmp_path: Path, api: DemoApi) -> None:
    first = result_of("pages_to_postgres", tmp_path, api_url=api.url)

    assert first["stored"].items() >= STORED.items()
    assert first["unknown_shops"] == ["atlantis"]
    assert result_of("pages_to_postgres", tmp_path, api_url=api.url) == first


@pytest.mark.req("ROUTE-11", "TOOL-05")
@pytest.mark.usefixtures("warehouse")
def test_orders_are_counted_where_both_branches_join(tmp_path: Path, api: DemoApi) -> None:
    assert result_of("orders", tmp_path, api_url=api.url) == LISTS


@pytest.mark.req("LOOP-06", "LOOP-07", "LOOP-14")
def test_hotels_requests_every_room_of_every_hotel_in_every_city(tmp_path: Path, api: DemoApi) -> None:
    ran = run_example("hotels", tmp_path, api_url=api.url)

    prices = ran.result.ctx["prices"]
    assert [(one["city"], one["hotel"], one["room"]) for one in prices] == [
        (city, hotel, room)
        for city, hotels in [("oslo", ["fjord", "harbour"]), ("rome", ["forum", "tiber", "villa"])]
        for hotel in hotels
        for room in ("single", "double")
    ]
    cheapest = min(one["price"] for one in prices)
    assert ran.result.result == {"rooms": 10, "cheapest": [one for one in prices if one["price"] == cheapest]}


@pytest.mark.req("ROUTE-04", "ROUTE-11")
@pytest.mark.parametrize(
    ("total", "checks"),
    [(90, ["credit_left", "in_stock"]), (900, ["credit_left", "in_stock", "risk"])],
)
def test_fan_out_decides_after_all_started_checks(tmp_path: Path, total: int, checks: list[str]) -> None:
    assert result_of("fan_out", tmp_path, total=total) == {"accepted": True, "checks": checks}


@pytest.mark.req("ROUTE-05", "ROUTE-09")
@pytest.mark.parametrize(
    ("payload", "result"),
    [
        ({}, {"greeting": "welcome back, customer 17"}),
        ({"customer": "nobody"}, {"greeting": "welcome, nobody: please sign up"}),
    ],
)
def test_error_routing_takes_the_expected_path_for_each_customer(
    tmp_path: Path, api: DemoApi, payload: dict[str, Any], result: Any
) -> None:
    assert result_of("error_routing", tmp_path, api_url=api.url, **payload) == result


@pytest.mark.req("ROUTE-05", "POL-06")
def test_error_routing_reports_a_permanently_failing_service(tmp_path: Path, api: DemoApi) -> None:
    ran = run_example("error_routing", tmp_path, api_url=api.url, resource="broken")

    assert ran.result.ok, ran.result.error
    assert ran.result.result["alert"].startswith("retry.exhausted: ")
    assert ran.slept == [0.5, 1.0]


@pytest.mark.req("POL-05")
def test_polling_repeats_until_the_job_is_done(tmp_path: Path, api: DemoApi) -> None:
    ran = run_example("polling", tmp_path, api_url=api.url)

    assert ran.result.result == {"job": "report-1", "rows": 128}
    assert ran.slept == [2, 2]


@pytest.mark.req("TOOL-11")
def test_nested_sums_the_results_of_its_children(tmp_path: Path, api: DemoApi) -> None:
    result = result_of("nested", tmp_path, api_url=api.url)

    assert [shop["shop"] for shop in result["shops"]] == ["oslo", "kyoto"]
    alone = result_of("shop_total", tmp_path, api_url=api.url, shop="oslo")
    assert result["shops"][0] == alone
    assert result["total"] == sum(shop["total"] for shop in result["shops"])


@pytest.mark.req("KEY-03", "KEY-06")
def test_secrets_leaves_no_trace_of_the_token(tmp_path: Path, api: DemoApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEMO_API_TOKEN", TOKEN)

    assert result_of("secrets", tmp_path, api_url=api.url) == {"user": "ada", "token": "***"}

    left = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert b"start_task" in left
    assert TOKEN.encode() not in left


@pytest.mark.req("KEY-02")
def test_secrets_does_not_start_without_its_token(tmp_path: Path, api: DemoApi) -> None:
    ran = run_example("secrets", tmp_path, api_url=api.url)

    assert ran.result.error is not None
    assert ran.result.error.kind == "keychain.unresolved"
    assert not api.asked


@pytest.mark.req("RES-01", "RES-06")
def test_large_results_are_passed_by_reference(tmp_path: Path, api: DemoApi) -> None:
    ran = run_example("large_results", tmp_path, api_url=api.url)

    assert ran.result.ok, ran.result.error
    assert ran.result.result["average"]["s0"] == 24.6
    assert ran.result.result["size_bytes"] > 500_000
    assert max(len(msgspec.json.encode(readable(event))) for event in ran.events) < 65_536

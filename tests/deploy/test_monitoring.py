"""Dashboard and alert rules: every query is PromQL, and a server has every series and label that it reads."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.cli.processes_here import Here
from tests.deploy.image import ROOT

promql_parser = pytest.importorskip("promql_parser", reason="make test installs requirements-deploy.lock")

MONITORING = ROOT / "deploy"
OF_PROMETHEUS = {"job", "instance"}  # labels that it adds to every series itself


def alerts() -> dict[str, dict[str, Any]]:
    (group,) = yaml.safe_load((MONITORING / "prometheus/alerts.yaml").read_text())["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def dashboard() -> dict[str, Any]:
    read: dict[str, Any] = json.loads((MONITORING / "grafana/noetl.json").read_text())
    return read


def queries() -> dict[str, str]:
    """Every query by where it stands."""
    found = {f"alert {name}": rule["expr"] for name, rule in alerts().items()}
    for panel in dashboard()["panels"]:
        for number, target in enumerate(panel["targets"]):
            found[f"panel {panel['title']}, {number}"] = target["expr"]
    levels = (ROOT / "docs" / "how-to" / "alerts.md").read_text().partition("## Service levels")[2]
    for number, query in enumerate(re.findall(r"\| `(.+)` \|$", levels, re.M)):
        found[f"service level {number}"] = query
    (rule,) = yaml.safe_load((MONITORING / "prometheus/adapter.yaml").read_text())["externalRules"]
    found["adapter series"] = rule["seriesQuery"]
    found["adapter metric"] = rule["metricsQuery"].replace("<<.LabelMatchers>>", 'pool="default"')
    return found


QUERIES = queries()


def selectors(node: Any) -> Iterator[Any]:
    """Every selector of series in a parsed query."""
    if isinstance(node, promql_parser.VectorSelector):
        yield node
        return
    for name in ("lhs", "rhs", "expr", "param", "vector_selector"):
        if (child := getattr(node, name, None)) is not None:
            yield from selectors(child)
    for child in getattr(node, "args", None) or ():
        yield from selectors(child)


def grouped(text: str) -> set[str]:
    return {name.strip() for found in re.findall(r"by \(([^)]*)\)", text) for name in found.split(",")}


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The series of a server that has run something, each with its labels."""
    place = Here(tmp_path_factory.mktemp("metrics"))
    try:
        place.server("--workers-in-process", "1")
        with place.client() as client:
            client.run(client.register(ROOT / "examples" / "hello.yaml").path)
        text = metrics_of(place)
    finally:
        place.end()
    found: dict[str, set[str]] = {"up": set()}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def metrics_of(place: Here) -> str:
    request = urllib.request.Request(f"{place.url}/metrics", headers={"authorization": f"Bearer {place.token}"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize("place", QUERIES)
def test_a_query_reads_only_existing_series_and_labels(place: str, series: dict[str, set[str]]) -> None:
    query = QUERIES[place]
    read = list(selectors(promql_parser.parse(query)))

    assert read, query
    assert {one.name for one in read} - series.keys() == set(), f"{place}: {query}"
    known = set().union(*(series[one.name] for one in read)) | OF_PROMETHEUS
    for one in read:
        asked = {matcher.name for matcher in one.matchers.matchers}
        assert asked <= series[one.name] | OF_PROMETHEUS, f"{place}: {query}"
    assert grouped(query) <= known, f"{place}: {query}"


def test_labels_of_legends_and_texts_exist_after_the_query(series: dict[str, set[str]]) -> None:
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= grouped(target["expr"])
    for name, rule in alerts().items():
        for label in re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())):
            is_aggregated = re.match(r"\s*(max|sum|histogram_quantile)\b(?!_)", rule["expr"]) is not None
            assert label in (grouped(rule["expr"]) if is_aggregated else OF_PROMETHEUS), name


def test_every_alert_has_a_severity_a_summary_and_a_description() -> None:
    for rule in alerts().values():
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"].keys() == {"summary", "description"}


def test_the_page_about_alerts_has_each_of_them() -> None:
    page = (ROOT / "docs" / "how-to" / "alerts.md").read_text()

    assert sorted(re.findall(r"^\| `(Noetl\w+)` \|", page, re.M)) == sorted(alerts())


def test_panels_do_not_overlap_and_have_unique_ids() -> None:
    panels = dashboard()["panels"]
    cells = [
        (x, y)
        for one in panels
        for x in range(one["gridPos"]["x"], one["gridPos"]["x"] + one["gridPos"]["w"])
        for y in range(one["gridPos"]["y"], one["gridPos"]["y"] + one["gridPos"]["h"])
    ]

    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({one["id"] for one in panels}) == len(panels)


def test_a_query_of_an_unknown_series_is_detected(series: dict[str, set[str]]) -> None:
    (one,) = selectors(promql_parser.parse("rate(noetl_no_such_total[5m])"))

    assert one.name not in series

"""Lists every requirement of docs/spec with the tests that show it; fails when one has none.

Strength is read from the specification itself. Every requirement counts, `future` and SHOULD included: the seeds mark
them as placeholders, but this project implements them.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SPEC = ROOT / "docs" / "spec" / "requirements.md"

_SOURCE = r"\([^)]*(?:\([^)]*\)[^)]*)*\)"  # "(001 §2.1; O-01)", which may itself hold parentheses
_STRENGTH = r"(?P<strength>MUST\*?|SHOULD\*?|MAY|future)"
_REQUIREMENT = re.compile(rf"^- \*\*(?P<id>[A-Z0-9]+-\d+)\*\* {_SOURCE} {_STRENGTH} — (?P<text>.*)$", re.M)


_NAMED = re.compile(r"^(?:- \*\*([CO]-\d+)|### (F-[\w-]+)) ", re.M)  # rulings (§3, §4), fixtures (§6): no duties


class Collector:
    """A pytest plug-in that notes which tests name which requirements."""

    def __init__(self) -> None:
        self.tests: dict[str, list[str]] = defaultdict(list)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            for mark in item.iter_markers("req"):
                for requirement in mark.args:
                    name = item.nodeid.split("[")[0]
                    if name not in self.tests[requirement]:
                        self.tests[requirement].append(name)


def requirements() -> dict[str, tuple[str, str]]:
    """Every id with its strength and first sentence, in the order of the specification."""
    return {m["id"]: (m["strength"], m["text"].split(". ")[0]) for m in _REQUIREMENT.finditer(SPEC.read_text())}


def collect() -> dict[str, list[str]]:
    collector = Collector()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        status = pytest.main(
            ["--collect-only", "-q", "-p", "no:cacheprovider", str(ROOT / "tests")], plugins=[collector]
        )
    if status != pytest.ExitCode.OK:
        print(printed.getvalue())
        raise SystemExit("conformance: the tests could not be collected")
    return collector.tests


def main() -> int:
    known, shown = requirements(), collect()
    gaps = [identity for identity in known if not shown.get(identity)]
    named = {ruling or fixture for ruling, fixture in _NAMED.findall(SPEC.read_text())}
    unknown = sorted(set(shown) - set(known) - named)
    if "--quiet" not in sys.argv:
        show(known, shown)
    print(f"conformance: {len(known) - len(gaps)} of {len(known)} requirements have a test")
    for identity in gaps:
        print(f"conformance: {identity} ({known[identity][0]}) has no test: {known[identity][1][:90]}")
    for identity in unknown:
        print(f"conformance: {identity} is named by {shown[identity][0]} and is not in the specification")
    return 1 if gaps or unknown else 0


def show(known: dict[str, tuple[str, str]], shown: dict[str, list[str]]) -> None:
    for identity, (strength, text) in known.items():
        tests = shown.get(identity, [])
        print(f"{identity:9} {strength:7} {len(tests):3} tests  {text[:100]}")
        for test in tests:
            print(f"            {test}")


if __name__ == "__main__":
    raise SystemExit(main())

"""Lists every requirement of docs/spec with the tests that show it; fails when an implemented area has a gap.

Strength is read from the specification itself. In an implemented area every requirement counts, `future` and SHOULD
included: they are placeholders of the seeds that this project implements all the same.
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

IMPLEMENTED = (
    *("DOC", "DIA", "VAL", "TPL", "SPEC", "TASK", "SUGAR", "MIG"),  # the language
    *("KEY", "TOK", "ADM", "PIPE", "OUT", "POL", "LOOP", "SCOPE", "ROUTE", "EVT", "V2E"),  # the run on one machine
    *("SAGA", "QNT"),  # undoing, and quantum jobs
)

_SOURCE = r"\([^)]*(?:\([^)]*\)[^)]*)*\)"  # "(001 §2.1; O-01)", which may itself hold parentheses
_STRENGTH = r"(?P<strength>MUST\*?|SHOULD\*?|MAY|future)"
_REQUIREMENT = re.compile(rf"^- \*\*(?P<id>[A-Z0-9]+-\d+)\*\* {_SOURCE} {_STRENGTH} — (?P<text>.*)$", re.M)


_RULING = re.compile(r"^- \*\*(?P<id>[CO]-\d+) ", re.M)  # §3 and §4: rulings a test may name too


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
    quiet = "--quiet" in sys.argv
    known, shown = requirements(), collect()
    gaps = [i for i in known if i.split("-")[0] in IMPLEMENTED and not shown.get(i)]
    rulings = set(_RULING.findall(SPEC.read_text()))
    unknown = sorted(set(shown) - set(known) - rulings)
    if not quiet:
        for identity, (strength, text) in known.items():
            tests = shown.get(identity, [])
            area = "" if identity.split("-")[0] in IMPLEMENTED else "  (area not claimed yet)"
            print(f"{identity:9} {strength:7} {len(tests):3} tests{area}  {text[:100]}")
            for test in tests:
                print(f"            {test}")
    covered = sum(1 for i in known if shown.get(i))
    claimed = [i for i in known if i.split("-")[0] in IMPLEMENTED]
    print(
        f"conformance: {covered} of {len(known)} requirements have a test; "
        f"{len(claimed) - len(gaps)} of {len(claimed)} in the implemented areas ({', '.join(IMPLEMENTED)})"
    )
    for identity in gaps:
        print(f"conformance: {identity} ({known[identity][0]}) has no test: {known[identity][1][:90]}")
    for identity in unknown:
        print(f"conformance: {identity} is named by {shown[identity][0]} and is not in the specification")
    return 1 if gaps or unknown else 0


if __name__ == "__main__":
    raise SystemExit(main())

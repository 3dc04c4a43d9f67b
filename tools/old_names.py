"""Names that were given up for plainer ones: fails where one of them is still in use (docs/glossary.md), and where two
public classes have the same name.

Looks at module names, those of tests included, classes, functions, routes, event names and the texts of the UI.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE, SCREENS, TESTS = ROOT / "src" / "noetl", ROOT / "ui" / "src", ROOT / "tests"

# old name -> the plain one. Modules, by the package that had them; a name that is a plain word elsewhere stays
# allowed there.
MODULES = {
    "control": {
        "conduct": "executions", "rounds": "group_commit", "wishes": "pending_decisions", "hot": "loaded_executions",
        "bases": "snapshots", "values": "result_cache", "carriage": "result_transfer", "expected":
        "waiting_for_results",
        "at_hand": "local_worker", "suspects": "poison_orders", "survey": "recovery", "standing": "token_views",
        "clockwork": "background_jobs", "sweeping": "lost_work", "mailroom": "messages",
        "audience": "subscriptions", "deliveries": "delivery", "telling": "requests", "verdicts": "report_results",
    },
    "engine": {
        "errands": "side_runs", "hearing": "event_rules", "holding": "concurrency_limits", "settling": "settle",
        "carrying": "payload_transfer", "deciding": "decide",
    },
    "worker": {
        "office": "control_plane", "post": "reports", "line": "server_connection", "wire": "http1",
        "station": "remote_worker", "egress": "reports", "safe": "secret_store", "recall": "cancellation",
        "patience": "retry_delay", "unwanted": "cancelled_orders",
    },
    "store": {"shelf": "key_values", "rows": "row_codecs", "outside": "deliveries", "loop_thread": "event_loop_thread"},
    "templates": {
        "leaving": "output", "members": "attribute_access", "missing": "undefined", "moments": "time_functions",
        "truth": "truthiness",
    },
    "secrets": {
        "cabinet": "credential_store", "opening": "encryption", "sealing": "encryption", "plain": "plaintext",
    },
    "language": {
        "case_sorting": "rule_placement", "sheet": "document_editor", "pieces": "fragments", "case_apart":
        "split_rules",
        "fates": "token_outcomes", "meeting": "joins", "playing": "simulation", "forking": "forks",
        "moving": "transitions", "settling": "fixpoint",
    },
    "cli": {
        "telling": "requests", "steering": "control", "reaching": "connection", "reading": "queries",
        "given": "arguments", "garbage": "gc_tuning", "live_words": "live_text", "task_there": "remote_tasks",
    },
    "server": {
        "heads": "middleware", "hub": "event_hub", "flaws": "bodies", "fitness": "worker_matching",
        "measured": "metrics", "shortcut": "middleware",
    },
}  # fmt: skip
# Classes and functions, wherever they are.
SYMBOLS = {
    "Conductor": "Executions", "Rounds": "GroupCommit", "Wish": "PendingDecision", "Hot": "LoadedExecution",
    "HotExecutions": "LoadedExecutions", "Carriage": "ResultTransfer", "AtHand": "LocalWorkers",
    "Suspects": "PoisonOrders", "Survey": "Recovery", "Clockwork": "BackgroundJobs", "Mailroom": "MessageQueue",
    "Audience": "Subscriptions", "Summons": "PendingHandler", "Office": "ControlPlane", "Post": "ReportQueue",
    "Station": "RemoteWorker", "Egress": "ReportWriter", "Cabinet": "CredentialStore", "Shelf": "KeyValues",
}  # fmt: skip
# Functions: a participle or a metaphor alone does not say what is returned or done.
FUNCTIONS = {
    "told", "look", "shown", "kept", "found", "made", "asked", "given", "taken", "said", "wanted", "seen", "heard",
    "hear", "say", "tell", "ring", "forlorn", "lent", "beside", "apart", "meant", "brought", "bring", "carried",
    "thing", "things", "whose", "forged",
}  # fmt: skip
WORDS = re.compile(r"errand|mailroom|carriage", re.I)
# Folders of tests that are about a package under another name.
TESTED = {"contracts": "store", "cluster": "control"}


def uses() -> Iterator[str]:
    """Every place that still has an old name, as a line to print."""
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE)
        plain = MODULES.get(place.parts[0], {}).get(path.stem)
        if plain:
            yield f"{place}: the module should be called {plain}"
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                if node.name in SYMBOLS:
                    yield f"{place}:{node.lineno}: {node.name} should be {SYMBOLS[node.name]}"
                elif WORDS.search(node.name):
                    yield f"{place}:{node.lineno}: {node.name} has an old word"
                elif not isinstance(node, ast.ClassDef) and node.name.strip("_") in FUNCTIONS:
                    yield f"{place}:{node.lineno}: {node.name} needs a name that says what it returns or does"
    for path in sorted(TESTS.rglob("test_*.py")):
        place = path.relative_to(TESTS)
        plain = MODULES.get(TESTED.get(place.parts[0], place.parts[0]), {}).get(path.stem.removeprefix("test_"))
        if plain:
            yield f"tests/{place}: the module should be called test_{plain}"
    for path in sorted([*SCREENS.rglob("*.svelte"), *SCREENS.rglob("*.ts")]):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if WORDS.search(line):
                yield f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"


def duplicates() -> Iterator[str]:
    """Every public class whose name another public class has too, as a line to print."""
    places: dict[str, list[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    for name, found in sorted(places.items()):
        if len(found) > 1:
            yield f"{name} is the name of {len(found)} classes: {', '.join(found)}"


def main() -> int:
    found = [*uses(), *duplicates()]
    print(*found, sep="\n")
    print(f"{len(found)} names to change" if found else "no old name is in use, and no public class name twice")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

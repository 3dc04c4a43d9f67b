"""Canary tests: fifty random secrets, a run in a process of its own, and a search of everything that it left."""

from __future__ import annotations

import json
import re
import secrets
from base64 import encodebytes
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from noetl.base.secret_forms import forms_of
from tests.cli.running import call, process

COUNT = 50
LONG = 10  # every tenth is longer than most things that are cut
WINDOW = 16  # of a long one, this much in a row counts as seen
GOES_ON: dict[str, Any] = {
    "policy": {"rules": [{"else": {"then": {"do": "continue", "set_iter": {"seen": "{{ outcome }}"}}}}]}
}
_WORD = re.compile(rb"[A-Za-z0-9_+/=%-]{12,}")
_PADDING = re.compile(rb"x{100,}")  # filler of tests; no secret has so many
_SPICES = ["", "/", "+=", "&?", '"', "\\", "'", "ü", "\t", " <>", "@:/", "%41", '"&+/ü ', "$(x)", "{}"]


def secret(number: int) -> str:
    """The template that reads one."""
    return f"{{{{ keychain.c{number}.value }}}}"


def entries() -> list[dict[str, Any]]:
    return [{"name": f"c{number}", "kind": "env", "var": f"CANARY_{number}"} for number in range(COUNT)]


def playbook(tasks: Iterable[dict[str, Any]], *, more: Iterable[dict[str, Any]] = (), **step: Any) -> dict[str, Any]:
    """One step with these tasks, with any outcome; `more` are further keychain entries. JSON is YAML."""
    named = [{"name": f"t{at}", "spec": GOES_ON, **task} for at, task in enumerate(tasks)]
    return {
        "apiVersion": "noetl.io/v10",
        "kind": "Playbook",
        "metadata": {"name": "canaries", "path": "tests/canaries"},
        "keychain": [*entries(), *more],
        "workflow": [{"step": "start", "tool": named, **step}],
    }


class Yard:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.db = folder / "data" / "store.db"
        self._pieces: set[str] = set()
        self.canaries = [self._canary(number) for number in range(COUNT)]
        self.environment = {f"CANARY_{number}": canary for number, canary in enumerate(self.canaries)}
        self.environment["NOETL_HOME"] = str(folder / "home")
        self.shown: dict[str, str] = {}

    def _canary(self, number: int) -> str:
        first, second = secrets.token_urlsafe(9), secrets.token_urlsafe(9)
        if number % LONG == LONG - 1:
            first = secrets.token_urlsafe(400)
            self._pieces |= {first[at : at + WINDOW] for at in range(0, len(first) - WINDOW, WINDOW // 2)}
        self._pieces |= {first, second}
        canary = first + _SPICES[number % len(_SPICES)] + second
        self._pieces |= {line for line in encodebytes(canary.encode()).decode().splitlines() if len(line) > WINDOW}
        return canary

    def also(self, *more: str) -> None:
        """Further secrets to look for."""
        self._pieces |= {form for text in more for form in forms_of(text)}

    def file(self, name: str, document: dict[str, Any]) -> Path:
        path = self._folder / name
        path.write_text(json.dumps(document, ensure_ascii=False))
        return path

    def noetl(self, *arguments: str) -> tuple[int, str]:
        """One command; its output is searched later. A run has a process of its own."""
        if arguments[0] == "run":
            done = process(*arguments, "--db", str(self.db), **self.environment)
            code, shown = done.returncode, done.stdout + done.stderr
        else:
            code, out, err = call(*arguments, "--db", str(self.db))
            shown = out + err
        self.shown[f"{arguments[0]} {len(self.shown)}"] = shown
        return code, shown

    def run(self, document: dict[str, Any], *options: str, output: str = "text", code: int = 0) -> list[dict[str, Any]]:
        """Run it, ask all there is to ask about it, and give its events."""
        file = self.file("canaries.yaml", document)
        found, shown = self.noetl("run", str(file), "-o", output, *options)
        assert found == code, shown
        return self.asked()

    def asked(self) -> list[dict[str, Any]]:
        """All there is to ask about every execution; their events."""
        events: list[dict[str, Any]] = []
        for execution in json.loads(self.noetl("executions", "-o", "json")[1]):
            name = execution["execution_id"]
            self.noetl("logs", name)
            self.noetl("status", name)
            self.noetl("status", name, "-o", "json")
            self.noetl("result", name)
            self.noetl("events", name)
            events += json.loads(self.noetl("events", name, "-o", "json")[1])
        return events

    def outcomes(self, events: list[dict[str, Any]]) -> dict[str, Any]:
        """By task name: None where it went well, else its error."""
        done = [event for event in events if event["event_type"] == "task.processed"]
        return {event["payload"]["task"]: event["payload"]["outcome"].get("error") for event in done}

    def left(self) -> list[tuple[str, str]]:
        """Every piece of a secret that can be found, and where."""
        bodies = {path.name: path.read_bytes() for path in self.db.parent.rglob("*") if path.is_file()}
        bodies |= {name: text.encode() for name, text in self.shown.items()}
        wanted = self._pieces | {form for canary in self.canaries for form in forms_of(canary) if len(form) < 200}
        needles = _least(wanted)
        return sorted({(where, n.decode()) for where, body in bodies.items() for n in _found(needles, body)})


def _least(texts: Iterable[str]) -> list[bytes]:
    """Those that hold none of the others: wherever a longer one is, its part is as well."""
    kept: list[str] = []
    for text in sorted(texts, key=len):
        if not any(one in text for one in kept):
            kept.append(text)
    return [one.encode() for one in kept]


def _found(needles: Iterable[bytes], body: bytes) -> list[bytes]:
    """Which of them are in it. Most are of one word, and of the words in a log most are there a hundred times."""
    words = b"\n".join(set(_WORD.findall(_PADDING.sub(b"x" * 100, body))))
    return [needle for needle in needles if needle in (words if _WORD.fullmatch(needle) else body)]

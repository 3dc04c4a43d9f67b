"""The playbooks of this folder, checked, with the parts of their nets that tests look at."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from noetl.base.diagnostics import Source
from noetl.language.checking import Checked, check
from noetl.net.net import Net, Transition
from noetl.net.task import Task
from noetl.tools.kinds import KINDS

PLAYBOOKS = sorted((Path(__file__).parent / "playbooks").glob("*.yaml"))
NAMES = [path.stem for path in PLAYBOOKS]


def path(name: str) -> Path:
    return Path(__file__).parent / "playbooks" / f"{name}.yaml"


@cache
def checked(name: str, *, strict: bool = False) -> Checked:
    return check(Source(f"{name}.yaml", path(name).read_bytes().decode()), kinds=KINDS, strict=strict)


def net(name: str) -> Net:
    compiled = checked(name).net
    assert compiled is not None, [str(found) for found in checked(name).diagnostics]
    return compiled


def step(name: str, step_name: str = "start") -> Transition:
    return next(each for each in net(name).transitions if each.name == step_name)


def task(name: str, task_name: str, step_name: str = "start") -> Task:
    return next(each for each in step(name, step_name).tasks if each.name == task_name)


def said(name: str, code: str) -> list[tuple[int, str, str]]:
    """Line, message and hint of every finding with this code."""
    return [(found.line, found.message, found.hint) for found in checked(name).diagnostics if found.code == code]

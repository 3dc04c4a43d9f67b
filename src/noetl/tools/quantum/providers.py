"""Providers by name: the built-in ones, and those of plug-ins (entry points of the group `noetl.quantum`)."""

from __future__ import annotations

from collections.abc import Mapping

from noetl.base.errors import ToolError
from noetl.tools.quantum.ibm import Ibm
from noetl.tools.quantum.jobs import UNAVAILABLE, Provider
from noetl.tools.quantum.process import Engine
from noetl.tools.quantum.simulator import Simulator

SIMULATOR = "simulator"
GROUP = "noetl.quantum"


class Providers:
    """One instance of each. `more` adds some, for tests and embedders."""

    def __init__(self, more: Mapping[str, Provider] | None = None) -> None:
        self._engines = aer, ibm = Engine("aer"), Engine("ibm")
        self._made: dict[str, Provider] = {
            SIMULATOR: Simulator(aer),
            "aer": Simulator(aer, always_aer=True),
            "ibm": Ibm(ibm),
            **(more or {}),
        }

    def provider(self, name: str) -> Provider:
        """ToolError `quantum.provider_unavailable` says what there is, and the way out."""
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = self._load(name)
        return made

    async def close(self) -> None:
        """End what was started for them; jobs go on where they are."""
        for engine in self._engines:
            await engine.close()

    def _load(self, name: str) -> Provider:
        from importlib.metadata import entry_points  # slow to import, and rarely needed

        found = next((entry for entry in entry_points(group=GROUP) if entry.name == name), None)
        if found is None:
            raise ToolError(
                UNAVAILABLE,
                f'there is no quantum provider "{name}" here: install a plug-in that brings it, '
                f"or let the simulator stand in for it with provider_stand_ins = {name}={SIMULATOR}",
            )
        try:
            made: Provider = found.load()()
        except ImportError as problem:
            raise ToolError(UNAVAILABLE, f'the quantum provider "{name}" lacks a library: {problem}') from problem
        return made


def stand_ins(written: tuple[str, ...]) -> dict[str, str]:
    """`ibm=simulator` as a mapping. ValueError for anything else."""
    found = {}
    for one in written:
        name, sign, stand_in = one.partition("=")
        if not sign or not name.strip() or not stand_in.strip():
            raise ValueError(f'provider_stand_ins: "{one}" is not of the form ibm=simulator')
        found[name.strip()] = stand_in.strip()
    return found

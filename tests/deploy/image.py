"""The Dockerfile walked without Docker: its stages built one after another in folders that act as their roots.

Each RUN gets a mount namespace of its own in which the stage's folder is the root: system folders of this machine are
mounted read-only into it, and /src, /opt, /dist, /var/lib and /etc are the stage's own. So a step sees nothing of the
checkout but what a COPY brought. It needs root, since files change their owner. The contents of the base images besides
Python and Node are not tested.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from itertools import takewhile
from pathlib import Path
from string import Template

import msgspec

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
SYSTEM = ("usr", "bin", "lib", "lib64", "sbin", "opt/wheels", "opt/pypi", "opt/pypi-more", "root/.pyenv", "etc/ssl")
PASSED = re.compile(r"(?i)(pip|npm|uv)_.*|(ssl|requests|curl|node)_.*|https?_proxy|no_proxy")


class Instruction(msgspec.Struct, frozen=True):
    """One instruction with its text on one line."""

    name: str
    text: str


class Stage(msgspec.Struct, kw_only=True):
    name: str
    base: str
    instructions: list[Instruction]


def stages(text: str) -> list[Stage]:
    """The stages of a Dockerfile in their order."""
    found: list[Stage] = []
    for line in _lines(text):
        name, _, rest = line.partition(" ")
        if name == "ARG" and not found:
            continue
        if name == "FROM":
            base, _, alias = rest.partition(" AS ")
            found.append(Stage(name=alias or "final", base=base, instructions=[]))
        else:
            found[-1].instructions.append(Instruction(name, rest.strip()))
    return found


def arguments(text: str) -> dict[str, str]:
    """The arguments of a build with their defaults, which precede the first stage."""
    before = takewhile(lambda line: not line.startswith("FROM "), _lines(text))
    return dict(line.removeprefix("ARG ").split("=", 1) for line in before)


def _lines(text: str) -> list[str]:
    joined = re.sub(r"\\\n", " ", re.sub(r"^\s*#.*\n", "", text, flags=re.M))
    return [one.strip() for one in joined.splitlines() if one.strip()]


class Walk:
    """`context` is the build context as .dockerignore leaves it; `roots` has the folder of each built stage."""

    def __init__(self, folder: Path, context: Path) -> None:
        self.folder, self.context = folder, context
        self.roots: dict[str, Path] = {}
        self.environment: dict[str, str] = {}
        self.settings: dict[str, str] = {}
        self.arguments = arguments(DOCKERFILE.read_text())

    def build(self, stage: Stage) -> Path:
        root = self.roots[stage.name] = self.folder / f"root-{stage.name}"
        for place in ("src", "opt", "dist", "tmp", "etc", "var/lib", "root", "proc", "dev"):
            (root / place).mkdir(parents=True)
        for file in ("passwd", "group", "shadow", "gshadow", "login.defs", "nsswitch.conf", "resolv.conf", "hosts"):
            if (Path("/etc") / file).exists():
                shutil.copy(Path("/etc") / file, root / "etc" / file)
        self.environment, where = {}, "/"
        for one in stage.instructions:
            match one.name:
                case "WORKDIR":
                    where = one.text
                    (root / where.lstrip("/")).mkdir(parents=True, exist_ok=True)
                case "ENV":
                    text = Template(one.text).safe_substitute(self.arguments)
                    self.environment |= dict(word.split("=", 1) for word in shlex.split(text))
                case "COPY":
                    self._copy(root, where, shlex.split(one.text))
                case "RUN":
                    self.run(root, where, ["sh", "-ec", one.text])
                case _:
                    self.settings[one.name] = one.text
        return root

    def _copy(self, root: Path, where: str, words: list[str]) -> None:
        source = self.context
        if words[0].startswith("--from="):
            source = self.roots[words[0].removeprefix("--from=")]
            words = words[1:]
        *names, place = words
        target = root / str(Path(where) / place).lstrip("/")
        for name in names:
            found = source / name.lstrip("/")
            assert found.exists(), f"COPY {name}: it is not in the build context"
            if found.is_dir():
                shutil.copytree(found, target, symlinks=True, dirs_exist_ok=True)
            elif place.endswith("/") or target.is_dir():
                target.mkdir(parents=True, exist_ok=True)
                shutil.copy(found, target / found.name)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(found, target)

    def command(self, root: Path, where: str, words: list[str], *, as_user: bool = False) -> list[str]:
        """The command line that runs `words` inside the stage; with `as_user` read-only and not as root."""
        mounts = ["--bind", str(root), "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
        if as_user:
            home = str(root / "var/lib/noetl")
            mounts = ["--ro-bind", *mounts[1:], "--bind", home, "/var/lib/noetl"]
            words = ["setpriv", "--reuid=10001", "--regid=10001", "--clear-groups", "--", *words]
        for place in SYSTEM:
            if (Path("/") / place).exists():
                mounts += ["--ro-bind", f"/{place}", f"/{place}"]
        shown = {name: value for name, value in os.environ.items() if PASSED.fullmatch(name)}
        shown |= {
            "PATH": f"{Path(sys.base_prefix) / 'bin'}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": "/tmp",
        }
        chosen = dict(self.environment)
        if "PATH" in chosen:
            chosen["PATH"] = f"{chosen['PATH']}:{shown['PATH']}"
        variables = [word for pair in (shown | chosen).items() for word in ("--setenv", *pair)]
        return ["bwrap", *mounts, "--clearenv", *variables, "--chdir", where, *words]

    def run(self, root: Path, where: str, words: list[str], *, as_user: bool = False) -> str:
        command = self.command(root, where, words, as_user=as_user)
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, f"RUN {shlex.join(words)}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        return done.stdout

    def words(self, name: str) -> list[str]:
        """ENTRYPOINT, CMD or the command of HEALTHCHECK, which are lists in JSON."""
        found: list[str] = json.loads(self.settings[name][self.settings[name].index("[") :])
        return found

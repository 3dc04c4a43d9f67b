"""`make licences` writes dist/licences.md: the licence of every package that NoETL needs.

Licences are those that the installed packages declare, and that the lock of the web UI has. What is installed differs
with the version of Python, the system and the groups of dependencies, so the list belongs to a build and not to docs/.
"""

from __future__ import annotations

import json
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
US = "noetl-engine"
_CLASSIFIER = "License :: OSI Approved :: "
# What packages say in words of their own, as SPDX says it.
_SPDX = {
    "MIT License": "MIT",
    "Apache Software License": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "BSD License": "BSD",
    "3-Clause BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "The Unlicense (Unlicense)": "Unlicense",
}

HEAD = """# Licences of dependencies

Every package that NoETL needs, with the licence that it declares. NoETL itself is under the Apache License 2.0.
`make sbom` writes the exact versions with their hashes. *needed by* is `core` for what every installation has, else
the extras that bring the package.

## Python

| package | licence | needed by |
|---|---|---|
"""
MISSING_HEAD = """
Not installed here, so their licences and those of what they need were not read:

"""
UI_HEAD = """
## Web UI

These packages are in the files of the web UI, or are needed to make them.

| package | licence |
|---|---|
"""


def licences_page() -> str:
    python = [f"| {name} | {licence_of(name)} | {', '.join(users)} |" for name, users in sorted(packages().items())]
    missing = [f"- {name} ({extra})" for name, extra in sorted(missing_packages())]
    ui = [f"| {name} | {licence} |" for name, licence in sorted(ui_packages().items())]
    parts = [HEAD, "\n".join(python), "\n", UI_HEAD, "\n".join(ui), "\n"]
    if missing:
        parts[3:3] = [MISSING_HEAD, "\n".join(missing), "\n"]
    return "".join(parts)


def packages() -> dict[str, list[str]]:
    """Every installed package that NoETL needs, with `core` or the extras that need it."""
    found = {name: ["core"] for name in _needed(US, "")}
    for extra in sorted(distribution(US).metadata.get_all("Provides-Extra") or []):
        for name in _needed(US, extra):
            if (users := found.setdefault(name, [])) != ["core"]:
                users.append(extra)
    return found


def _needed(name: str, extra: str) -> set[str]:
    """All packages that a package needs with this extra, directly or through others."""
    found: set[str] = set()
    pending, seen = [(name, extra)], {(name, extra)}
    while pending:
        name, extra = pending.pop()
        if (installed := _installed(name)) is None:
            continue  # for another system, or for another version of Python
        if name != US:
            found.add(name)
        for text in installed.requires or []:
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                for one in ((canonicalize_name(needed.name), each) for each in ("", *sorted(needed.extras))):
                    if one not in seen:
                        seen.add(one)
                        pending.append(one)
    return found


def missing_packages() -> set[tuple[str, str]]:
    """What an extra names, and is not installed here."""
    needed = [Requirement(text) for text in distribution(US).requires or []]
    extras = distribution(US).metadata.get_all("Provides-Extra") or []
    return {
        (canonicalize_name(one.name), extra)
        for one in needed
        for extra in extras
        if one.marker is not None
        and one.marker.evaluate({"extra": extra})
        and not one.marker.evaluate({"extra": ""})
        and _installed(one.name) is None
    }


def _installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def licence_of(name: str) -> str:
    metadata = distribution(name).metadata
    classified = [
        one.removeprefix(_CLASSIFIER) for one in metadata.get_all("Classifier") or [] if one.startswith(_CLASSIFIER)
    ]
    said = (metadata["License"] or "").partition("\n")[0].strip()
    found = metadata["License-Expression"] or (said if 0 < len(said) <= 40 else "") or ", ".join(classified)
    return _SPDX.get(found, found) or "not declared"


def ui_packages() -> dict[str, str]:
    """What the lock of the UI has beside its tools."""
    lock = json.loads((ROOT / "ui" / "package-lock.json").read_text())
    return {
        path.rpartition("node_modules/")[2]: str(package.get("license", "not declared"))
        for path, package in lock["packages"].items()
        if path and not package.get("dev") and not package.get("optional")
    }


def main() -> None:
    target = ROOT / "dist" / "licences.md"
    target.parent.mkdir(exist_ok=True)
    target.write_text(licences_page())
    print(target.relative_to(ROOT))


if __name__ == "__main__":
    main()

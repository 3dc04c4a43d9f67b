"""`make licences`: what the packages that everybody installs declare, and that nobody is surprised by it."""

from __future__ import annotations

import re

from tools.licences import licence_of, licences_page, packages, ui_packages

# Licences that ask nothing of a program that only uses the package, beyond naming it.
PERMISSIVE = {
    "0BSD",
    "Apache-2.0",
    "BSD",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "PSF-2.0",
}


def choices(licence: str) -> set[str]:
    return set(re.split(r" (?:AND|OR) ", licence))


def test_what_every_installation_needs_has_a_permissive_licence() -> None:
    core = {name: licence_of(name) for name, users in packages().items() if users == ["core"]}

    assert {"click", "fastapi", "msgspec", "pyyaml"} <= set(core)
    assert {name: licence for name, licence in core.items() if not choices(licence) <= PERMISSIVE} == {}


def test_what_is_in_the_web_ui_has_a_permissive_licence() -> None:
    found = ui_packages()

    assert {"svelte", "@xyflow/svelte", "@codemirror/view"} <= set(found)
    assert {name: licence for name, licence in found.items() if not choices(licence) <= PERMISSIVE} == {}


def test_no_package_that_is_installed_is_without_a_licence() -> None:
    # Those of the group `quantum` are installed on some machines only.
    looked_at = [name for name, users in packages().items() if not set(users) <= {"quantum", "quantum-ibm"}]

    assert [name for name in looked_at if licence_of(name) == "not declared"] == []


def test_the_page_names_each_package_with_who_needs_it() -> None:
    page = licences_page()

    assert "| click | BSD-3-Clause | core |" in page
    assert "| svelte | MIT |" in page
    assert re.search(r"^\| asyncpg \| Apache-2.0 \| .*postgres", page, re.M)
    assert "vitest" not in page, "the tools that test the UI are not in it"

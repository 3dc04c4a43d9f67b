"""docs/settings.md: every setting with its variable, type and default. `make docs` writes it."""

from __future__ import annotations

from typing import get_type_hints

from noetl.base.settings import DESCRIPTIONS, PREFIX, Settings

HEAD = """# Settings

Generated from the settings (`make docs`). A command's flag comes first, then the variable, then `.env` in the
working folder, then `noetl.toml` (or `[tool.noetl]` of a `pyproject.toml`) in that folder or above, then your own
`config.toml`, then the default. `noetl config show --origin` shows what holds and where it comes from. A key that does
not exist is refused.

Lists are written as TOML lists in files, and with commas in variables.

| setting | variable | type | default | what it is for |
|---|---|---|---|---|
"""
_TYPES = {
    "tuple[str, ...]": "list of texts",
    "str": "text",
    "int": "number",
    "float": "number",
    "bool": "true or false",
}


def settings_page() -> str:
    hints, defaults = get_type_hints(Settings), Settings()
    lines = []
    for name, text in DESCRIPTIONS.items():
        kind = str(hints[name]).removeprefix("<class '").removesuffix("'>").removesuffix(" | None")
        value = getattr(defaults, name)
        shown = "" if value in (None, ()) else f"`{str(value).lower() if isinstance(value, bool) else _plain(value)}`"
        lines.append(f"| `{name}` | `{PREFIX}{name.upper()}` | {_TYPES[kind]} | {shown} | {text} |")
    return HEAD + "\n".join(lines) + "\n"


def _plain(value: object) -> str:
    return ", ".join(value) if isinstance(value, tuple) else f"{value:g}" if isinstance(value, float) else str(value)

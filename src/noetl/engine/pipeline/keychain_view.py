"""`keychain` as templates and code read it: `keychain.name.field`; `keychain.name` is a secret of one text (KEY-03).

Only what was fetched for the task is there. Nothing can be written through it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.events.secret_materials import Material


class KeychainView:
    __slots__ = ("_materials",)

    def __init__(self, materials: Mapping[str, Material]) -> None:
        self._materials = materials

    def lookup(self, name: str | int) -> Any:
        return MaterialView(self._materials[str(name)])

    def value(self) -> Any:
        return {name: dict(material.fields) for name, material in self._materials.items()}


class MaterialView:
    __slots__ = ("_material",)

    def __init__(self, material: Material) -> None:
        self._material = material

    def lookup(self, name: str | int) -> Any:
        return self._material.fields[str(name)]

    def value(self) -> Any:
        return self._material.text_or_fields()

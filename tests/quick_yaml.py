"""YAML read and written by libyaml: the same as what PyYAML does in Python, in a tenth of the time."""

from __future__ import annotations

from typing import Any

import yaml


class Unaliased(yaml.CSafeDumper):
    """Writes a value out each time it occurs."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def loaded(text: str) -> Any:
    return yaml.load(text, yaml.CSafeLoader)


def written(document: Any) -> str:
    return str(yaml.dump(document, Dumper=Unaliased, sort_keys=False, width=1000))

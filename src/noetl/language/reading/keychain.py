"""The keychain: which credentials a playbook needs, by name and kind (KEY-01). How they are found is not read here."""

from __future__ import annotations

from noetl.language.reading.nodes import Mapping, Node, Scalar, describe
from noetl.language.reading.playbook import KeychainEntrySyntax
from noetl.language.reading.shared_checks import ReadContext, opening, sequence, text

_SHAPE = "keychain: [{name: …, kind: …}]"


def read_keychain(reading: ReadContext, node: Node | None) -> tuple[KeychainEntrySyntax, ...]:
    """Its entries in order, each name once."""
    listed = sequence(reading, node, "E_KEYCHAIN", "keychain", _SHAPE)
    entries: dict[str, KeychainEntrySyntax] = {}
    for item in listed or ():
        entry = _read_entry(reading, item)
        if entry is None:
            continue
        if entry.name in entries:
            first = entries[entry.name].span.line
            message = f'keychain has two entries "{entry.name}", the other one in line {first}'
            reading.error("E_KEYCHAIN", entry.node.values["name"], message, "give each entry a name of its own")
        else:
            entries[entry.name] = entry
    return tuple(entries.values())


def _read_entry(reading: ReadContext, item: Node) -> KeychainEntrySyntax | None:
    if not isinstance(item, Mapping):
        message = f"a keychain entry must be a mapping with name and kind, and this is {describe(item)}"
        reading.error("E_KEYCHAIN", item, message, _SHAPE)
        return None
    name, kind = (_read_field(reading, item, key) for key in ("name", "kind"))
    if name is None or kind is None:
        return None
    return KeychainEntrySyntax(node=item, name=str(name.value), kind=str(kind.value))


def _read_field(reading: ReadContext, item: Mapping, key: str) -> Scalar | None:
    if key not in item:
        name = item.get("name")
        which = f' "{name.value}"' if isinstance(name, Scalar) else ""
        reading.error("E_KEYCHAIN", opening(item), f"keychain entry{which} has no {key}", _SHAPE)
        return None
    return text(reading, item.values[key], "E_KEYCHAIN", f"{key} of a keychain entry")

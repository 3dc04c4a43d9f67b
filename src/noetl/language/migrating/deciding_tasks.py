"""Tasks that only decide: noops whose policy rules jump, set or fail, and the parts of such rules."""

from __future__ import annotations

from collections.abc import Sequence

from noetl.language.migrating.fragments import (
    FragmentEntry,
    Item,
    ListFragment,
    Literal,
    Mapped,
    from_data,
    literal,
)
from noetl.language.migrating.names import template


def set_iter_entry(values: dict[str, object]) -> FragmentEntry:
    """What a rule keeps in iter."""
    return FragmentEntry("set_iter", from_data(values))


def policy_rule(
    when: str | None,
    do: str,
    *,
    to: str = "",
    error: str = "",
    set_iter: dict[str, object] | None = None,
    set_ctx: Mapped | None = None,
) -> Item:
    """One rule of a policy; the one without a condition is else."""
    then = [FragmentEntry("do", Literal(do))]
    then += [FragmentEntry("to", literal(to))] if to else []
    then += [FragmentEntry("error", literal(error))] if error else []
    then += [set_iter_entry(set_iter)] if set_iter else []
    then += [FragmentEntry("set_ctx", set_ctx)] if set_ctx is not None else []
    entry = FragmentEntry("then", Mapped(tuple(then), flow=True))
    if when is None:
        return Item(Mapped((FragmentEntry("else", Mapped((entry,), flow=True)),), flow=True))
    return Item(Mapped((FragmentEntry("when", literal(template(when))), entry)))


def policy_entry(rules: Sequence[Item]) -> FragmentEntry:
    """The policy of a task, as a key of its spec."""
    return FragmentEntry("policy", Mapped((FragmentEntry("rules", ListFragment(tuple(rules))),)))


def noop_task(name: str, rules: Sequence[Item], args: object = None) -> Item:
    """A task that does nothing but what its rules say; `args` is its result."""
    entries = [FragmentEntry("name", literal(name)), FragmentEntry("kind", Literal("noop"))]
    if isinstance(args, Literal | Mapped):
        entries.append(FragmentEntry("args", args))
    if rules:
        entries.append(FragmentEntry("spec", Mapped((policy_entry(rules),))))
    return Item(Mapped(tuple(entries)))


def name_of(item: Item) -> str:
    """The name of a task that has been written."""
    assert isinstance(item.value, Mapped)
    name = next(entry.value for entry in item.value.entries if isinstance(entry, FragmentEntry) and entry.key == "name")
    assert isinstance(name, Literal)
    return name.text

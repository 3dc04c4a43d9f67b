"""Model: one accepted spelling, and what a rewriting carries along."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import msgspec

from noetl.base.diagnostics import Findings, PositionedDiagnostic
from noetl.language.reading.nodes import Mapping
from noetl.language.reading.playbook import Dialect
from noetl.language.reading.spellings.trees import with_key

V10, V10_IO, V2_EVAL, V2_CASE = Dialect.V10, Dialect.V10_IO, Dialect.V2_EVAL, Dialect.V2_CASE
EVERYWHERE = (V10, V2_EVAL, V2_CASE)


class Where(StrEnum):
    """The construct a spelling belongs to; a rewriting visits every one of a document, from the outside in."""

    DOCUMENT = "document"
    EXECUTOR = "executor"
    KEYCHAIN = "keychain"
    STEP = "step"
    LOOP = "loop"
    ROUTER = "next"
    ARC = "arc"
    TASK = "task"
    RULE = "rule"  # of a task policy, an admission, a choose, a case; an eval entry
    ACTION = "then"  # what a rule does
    RETRY = "retry"  # one policy of a `retry` block


class Rewriting(msgspec.Struct):
    """The dialect the document is written in, and where notes go."""

    dialect: Dialect
    findings: Findings
    v10_api: bool = False  # apiVersion: noetl.io/v10
    rescue: bool = False  # also rewrite what noetl.io/v10 refuses: `noetl migrate`
    iter_names: frozenset[str] = frozenset()  # what the templates of a looped step read as `iter.name`
    step_names: frozenset[str] = frozenset()  # of the document
    quiet: bool = False  # within a dialect its own words are no news

    def note(self, place: PositionedDiagnostic, found: str, instead: str) -> None:
        """Tell that `found` was read as `instead`."""
        if not self.quiet:
            self.findings.add("I_ALIAS", place, f"{found} is read as {instead}", f"write {instead}")


Rewrite = Callable[[Mapping, Rewriting], Mapping]


class Spelling(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table; `tests/golden/spellings` has an example of each, before and after. A row without `rewrite`
    is read where it stands, as an input by the compiler, which knows what each kind takes.
    """

    id: str
    where: Where
    older: str  # as people write it
    canonical: str  # as v10 writes it
    dialects: tuple[Dialect, ...]  # the dialects that accept it
    rewrite: Rewrite | None = None
    own: Dialect | None = None  # the dialect whose own word it is
    refused_by_v10: bool = False  # apiVersion noetl.io/v10 refuses it, since a source document says so

    def is_read_in(self, dialect: Dialect) -> bool:
        """Whether documents of `dialect` may be written so. v10-io has the spellings of v10, too."""
        return dialect in self.dialects or dialect.rules in self.dialects

    def applies(self, rewriting: Rewriting) -> bool:
        """Whether this spelling is rewritten in a document of this dialect and version."""
        if self.rewrite is None or not self.is_read_in(rewriting.dialect):
            return False
        return rewriting.rescue or not (self.refused_by_v10 and rewriting.v10_api)


def renames(where: str, names: dict[str, str]) -> Rewrite:
    """A rewrite that gives keys other names; a key whose new name is taken stays, and is refused by its reader."""

    def rewrite(node: Mapping, rewriting: Rewriting) -> Mapping:
        for old, new in names.items():
            if old in node and new not in node:
                rewriting.note(node.keys[old], f'"{old}" of {where}', f'"{new}"')
                node = with_key(node, old, new)
        return node

    return rewrite

"""Limits of a document, paid for before anything is built (reliability.md §2.7).

Each number is far above what a playbook needs and far below what hurts a server that reads strangers' files.
"""

from __future__ import annotations

from noetl.base.source import Span
from noetl.language.reading.syntax.problems import refuse

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 64
MAX_EVENTS = 200_000
MAX_NODES = 50_000  # values, those that aliases repeat included
MAX_PATH_CHARACTERS = 8_000_000  # of all paths together: long keys above many values would fill the memory
MAX_TAG_DIRECTIVES = 64
MAX_PROBLEMS = 50  # a file with more mistakes than this is not a playbook


class Budget:
    """What is left to spend on one document; spending more refuses it at the place where that happened."""

    def __init__(self) -> None:
        self.nodes = 0
        self._path_characters = 0

    def spend(self, nodes: int, span: Span) -> None:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            refuse(span, f"the document has more than {MAX_NODES:,} values, aliases included")

    def spend_path(self, path: str, span: Span) -> None:
        self._path_characters += len(path)
        if self._path_characters > MAX_PATH_CHARACTERS:
            refuse(span, "the keys above this value are too long for a document of so many values")


def check_depth(depth: int, span: Span) -> None:
    if depth > MAX_DEPTH:
        refuse(span, f"the document is nested deeper than {MAX_DEPTH} levels")

"""Reading YAML: text in, a tree of nodes with places out, or diagnostics that say why not (DOC-01).

One lazy pass over parser events, so that hostile text is refused before it costs anything (reliability.md §2.7):
nothing is composed, constructed or expanded that `syntax.limits` has not allowed. What the keys mean is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator

import yaml
from yaml.reader import Reader

from noetl.base.diagnostics import Findings
from noetl.base.source import Source
from noetl.language.reading.nodes import Mapping, Node, Scalar, describe
from noetl.language.reading.syntax.limits import MAX_BYTES, MAX_PROBLEMS, MAX_TAG_DIRECTIVES
from noetl.language.reading.syntax.parser_errors import explain
from noetl.language.reading.syntax.positions import Places
from noetl.language.reading.syntax.problems import YamlProblem, YamlRefused, refuse
from noetl.language.reading.syntax.tree import TreeBuilder

PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml where it is there, else the same in Python

_UNREADABLE = Reader.NON_PRINTABLE  # YAML's own; to compile the same again would take 3 ms of every start


def read_yaml(source: Source, findings: Findings) -> Mapping | None:
    """The mapping at the root of `source`, or None; every problem is noted as E_YAML, and nothing is ever raised."""
    places = Places(source.text)
    builder = TreeBuilder(places)
    try:
        _check_text(places)
        root, last = builder.build(_events(places.text)), []
    except YamlRefused as refusal:
        root, last = None, [refusal.problem]
    except yaml.YAMLError as error:
        root, last = None, [explain(error, places, builder.open_bracket)]
    for problem in _told_once(builder.problems[:MAX_PROBLEMS], last):
        findings.add("E_YAML", problem.place, problem.message, problem.hint)
    return _mapping(root, findings) if root is not None else None


def _told_once(problems: list[YamlProblem], last: list[YamlProblem]) -> list[YamlProblem]:
    """What stopped the reading explains a place better than what was seen there before."""
    stops = {problem.place.span.start for problem in last}
    return [problem for problem in problems if problem.place.span.start not in stops] + last


def _events(text: str) -> Iterator[yaml.Event]:
    """Parser events, lazily; comments, quotes and line breaks are already understood."""
    loader = PARSER(text)
    try:
        while loader.check_event():
            yield loader.get_event()
    except (ValueError, OverflowError) as error:  # the parser in Python, about an escape past the last character
        raise yaml.YAMLError(str(error)) from error
    finally:
        loader.dispose()


def _check_text(places: Places) -> None:
    """Refuse text that is too long, or holds characters no YAML may hold."""
    text = places.text
    if len(text) > MAX_BYTES or (not text.isascii() and len(text.encode(errors="surrogatepass")) > MAX_BYTES):
        refuse(places.between(0, 0), "the document is larger than 1 MiB", "move large data out of the playbook")
    if text.count("\n%TAG") > MAX_TAG_DIRECTIVES:  # the parser compares each with all others
        refuse(places.between(0, 0), "the document begins with many %TAG lines", "remove them: tags are not read")
    found = _UNREADABLE.search(text)
    if found:
        message = f"the character U+{ord(found[0]):04X} cannot be part of a playbook"
        hint = "remove it; in double quotes it can be written as an escape"
        refuse(places.between(found.start(), found.end()), message, hint)


def _mapping(root: Node, findings: Findings) -> Mapping | None:
    if isinstance(root, Mapping):
        return root
    empty = isinstance(root, Scalar) and root.value is None
    message = "the document is empty" if empty else f"a playbook is a mapping, and this is {describe(root)}"
    findings.add("E_YAML", root, message, "begin with apiVersion: noetl.io/v10")
    return None

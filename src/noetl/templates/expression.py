"""Expressions: template text, parsed and checked once, evaluated often. The entry point of this package.

`parse` reads and checks without building anything that runs; the program is built on the first evaluation. No type of
the parser is part of this interface, so that the parser can be replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Protocol

from noetl.base.diagnostics import is_template
from noetl.base.errors import TemplateError
from noetl.templates import paths
from noetl.templates.budget import MAX_TEXT, Evaluation
from noetl.templates.logic import Compare, Comparison, Const, GuardReference, Opaque, Shape, truth
from noetl.templates.output import leave
from noetl.templates.values import walked

__all__ = ["Comparison", "GuardReference", "Template", "TemplateNames", "parse", "template_of"]

# Parsed templates by their text, of all playbooks of the process. Trees are shared, so nothing may change one.
MAX_CACHED = 4_096
# Far below the budget of a run: the checker evaluates every constant template of a document.
MAX_CONSTANT_STEPS = 5_000

Record = Callable[[Evaluation, Any, Any], str]  # receives the run, an expression's node and its value


class TemplateNames(Protocol):
    """Anything that resolves a name: a Scope. A plain mapping will do too."""

    def lookup(self, name: str) -> Any:
        """The value of `name`. KeyError when there is none."""


class Template:
    """One checked template.

    `single`: exactly one expression, which keeps its native type (TPL-02); anything else gives text. A value that comes
    straight from the scope is not copied: treat what `evaluate` gives as read-only.
    """

    __slots__ = ("_code", "_constant", "_parts", "_tree", "references", "single", "text")

    def __init__(
        self, text: str, *, single: bool, references: tuple[GuardReference, ...], parts: Any = None, tree: Any = None
    ) -> None:
        self.text = text
        self.single = single
        self.references = references
        self._parts: tuple[paths.Part, ...] | None = parts
        self._tree = tree
        self._code: Callable[[Evaluation], Any] | None = None
        self._constant: tuple[Any, ...] | None = None

    def evaluate(
        self,
        scope: TemplateNames | Mapping[str, Any],
        now: float | None = None,
        *,
        strict: bool = False,
        marks: bool = False,
        as_list: bool = False,
    ) -> Any:
        """The value in `scope` as plain JSON data. TemplateError for every failure.

        `now` is the time for `now()`; `strict` makes undefined reads errors (TPL-04); `marks` keeps SQL marks on text.
        `as_list`: a result whose payload is a list is that list, and not the mapping around it (TPL-07).
        """
        lookup = scope.__getitem__ if isinstance(scope, Mapping) else scope.lookup
        if self._parts is not None:
            if self.single:
                return paths.value_of(self._parts[0], lookup, strict, as_list)  # type: ignore[arg-type]
            return paths.text_of(self._parts, Evaluation(lookup, strict=strict))
        return self._run(Evaluation(lookup, now=now, strict=strict), marks, as_list)

    def evaluate_in(self, run: Evaluation) -> Any:
        """The value within the budget of `run`, whose spent steps can be read afterwards."""
        if self._parts is None:
            return self._run(run, marks=False)
        if self.single:
            return paths.value_of(self._parts[0], run.lookup, run.strict)  # type: ignore[arg-type]
        return paths.text_of(self._parts, run)

    def recorded(self, scope: TemplateNames | Mapping[str, Any], now: float | None, record: Record) -> str:
        """The text of the template with what `record` gives in place of each value; for templates with blocks."""
        run = Evaluation(scope.__getitem__ if isinstance(scope, Mapping) else scope.lookup, now=now)
        run.record = record
        return str(self._run(run, marks=False))

    def _run(self, run: Evaluation, marks: bool, as_list: bool = False) -> Any:
        try:
            if self._code is None:
                self._code = _program(self._tree, self.single)
            value = self._code(run)
            return leave(run, walked(value) if as_list else value, marks=marks)
        except RecursionError:
            raise TemplateError("a value is nested too deeply for a template") from None
        # The message names only the class of the exception: its text may hold a secret.
        except (ArithmeticError, TypeError, ValueError, AttributeError, LookupError) as wrong:
            raise TemplateError(f"the template failed on its values ({type(wrong).__name__})") from None

    @property
    def is_constant(self) -> bool:
        """Whether the value is known without a scope."""
        return bool(self._constant_value())

    @property
    def constant(self) -> Any:
        """The value of a constant template; TemplateError when it is not one."""
        if not self._constant_value():
            raise TemplateError("this template is not constant")
        return self._constant_value()[0]

    def _constant_value(self) -> tuple[Any, ...]:
        if self._constant is None:
            try:
                self._constant = () if self.references else (self.evaluate_in(_constant_run()),)
            except TemplateError:  # now(), a constant mistake such as 1/0, or more work than the budget for constants
                self._constant = ()
        return self._constant

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The equality and membership tests of references against constants, found anywhere."""
        if self._tree is None:
            return ()
        from noetl.templates.analysis import comparisons

        roots = {read.root for read in self.references}
        return tuple(found for found in comparisons(self._tree) if found.root in roots)

    @property
    def tested(self) -> tuple[tuple[str, tuple[str | int, ...]], ...]:
        """The references that the template uses as conditions."""
        if self._tree is None:
            return ()
        from noetl.templates.analysis import tested

        roots = {read.root for read in self.references}
        return tuple(found for found in tested(self._tree) if found[0] in roots)

    @property
    def shape(self) -> Shape:
        """The boolean shape of the template as a guard (templates.logic)."""
        if self.is_constant:
            return Const(truth(self.constant))
        if self._parts is not None and self.single and self.references:
            return Compare(self.references[0].root, self.references[0].path, "truthy")
        if self._tree is None or not self.single:
            return Opaque(self.text)
        from noetl.templates.analysis import shape

        return shape(self._tree.body[0].nodes[0])

    @property
    def choices(self) -> tuple[Any, ...]:
        """The constants that the template can give, if it is a constant or a choice between constants (C-27); else
        empty."""
        if self.is_constant:
            return (self.constant,)
        if self._tree is None or not self.single:
            return ()
        from noetl.templates.analysis import choices

        return choices(self._tree.body[0].nodes[0])


@lru_cache(maxsize=MAX_CACHED)
def parse(text: str) -> Template:
    """The template in `text`. TemplateError for bad syntax and for everything the sandbox can refuse beforehand."""
    if not is_template(text):
        return Template(text, single=False, references=(), parts=(text,) if text else ())
    body = text.rstrip("\n") or text  # the line break at the end of a block scalar is not intended as text
    parts = paths.recognise(body)
    # Most templates are plain paths (`{{ ctx.x }}`) between text. They need no parser, which takes longer to import
    # than a small playbook to run.
    if parts is None:
        return _parse_fully(text, body)
    if len(parts) == 1 and not isinstance(parts[0], str):
        return Template(text, single=True, references=paths.references(parts), parts=parts)
    if len(text) > MAX_TEXT:
        raise TemplateError(f"the template is longer than {MAX_TEXT:,} characters")
    tail = text[len(body) :]
    return Template(text, single=False, references=paths.references(parts), parts=(*parts, tail) if tail else parts)


def _parse_fully(text: str, body: str) -> Template:
    from noetl.templates.analysis import references
    from noetl.templates.forbidden_syntax import refuse
    from noetl.templates.syntax import read_tree

    tree = read_tree(body)
    single = _is_single(tree)
    # It is plain text, and then its last line break is part of it.
    if not single and body != text:
        tree = read_tree(text)
    refuse(tree, text)
    return Template(text, single=single, references=references(tree), tree=tree)


def template_of(text: str, tree: Any) -> Template:
    """The template of a syntax tree that was made from the checked tree of `text` by removing or replacing parts."""
    from noetl.templates.analysis import references
    from noetl.templates.forbidden_syntax import refuse

    refuse(tree, text)
    return Template(text, single=_is_single(tree), references=references(tree), tree=tree)


def _is_single(tree: Any) -> bool:
    """Whether the template is one expression and nothing else."""
    if len(tree.body) != 1 or type(tree.body[0]).__name__ != "Output":
        return False
    parts = tree.body[0].nodes
    return len(parts) == 1 and type(parts[0]).__name__ != "TemplateData"


def _constant_run() -> Evaluation:
    """For a template without references: checking a text of thousands of them is one request."""
    nothing: dict[str, Any] = {}
    return Evaluation(nothing.__getitem__, max_steps=MAX_CONSTANT_STEPS)


def _program(tree: Any, single: bool) -> Callable[[Evaluation], Any]:
    """The compiled program. Imported on first use, like the parser."""
    from noetl.templates.program import expression
    from noetl.templates.statements import document

    return expression(tree.body[0].nodes[0]) if single else document(tree.body)

"""A case that cannot be evaluated: a template of its author failed, which is never "no match" (TPL-09)."""

from __future__ import annotations

from noetl.base.errors import TemplateError, ToolError
from noetl.events.outcomes import Error


class BrokenCase(Exception):  # noqa: N818  it is the playbook's mistake, told to its author
    """The step run ends here; `where` says which part of the step failed."""

    def __init__(self, where: str, problem: TemplateError | ToolError | ValueError) -> None:
        super().__init__(where, problem)
        self.where, self.problem = where, problem

    def error(self, step: str) -> Error:
        kind = getattr(self.problem, "kind", TemplateError.kind)
        return Error(kind=kind, message=f'{self.where} of step "{step}": {self.problem}')

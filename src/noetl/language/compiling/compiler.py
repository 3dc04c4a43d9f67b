"""Compiling: a playbook of any dialect becomes a net, and every mistake that reading could not see is noted.

The passes, in order, are one tuple. Those before `lower_playbook` rewrite the playbook into canonical tasks or check
it; none of them knows the text's layout, and the net that comes out knows nothing of the dialect but its name.
"""

from __future__ import annotations

import msgspec

from noetl.base.diagnostics import Findings
from noetl.language.compiling.accepted_errors import check_accepted_errors, check_error_kinds
from noetl.language.compiling.accepted_failures import check_accepted_failures, check_exhausted_retries
from noetl.language.compiling.control_flow import expand_sugar
from noetl.language.compiling.credentials import check_credentials
from noetl.language.compiling.event_names import check_event_names
from noetl.language.compiling.guards import check_shadows, check_unmatched
from noetl.language.compiling.inputs import check_input_shapes, check_inputs
from noetl.language.compiling.lowering.nets import lower_playbook
from noetl.language.compiling.passes import Compilation, Pass
from noetl.language.compiling.python_code import check_python_code
from noetl.language.compiling.sql_fragments import check_sql_fragments, has_sql
from noetl.language.compiling.step_names import check_step_names, check_targets
from noetl.language.compiling.task_names import (
    check_jumps,
    check_step_results,
    check_task_names,
    check_task_results,
    name_tasks,
)
from noetl.language.compiling.template_sites import check_template_syntax
from noetl.language.compiling.tool_kinds import check_spec_keys, check_tool_kinds
from noetl.language.compiling.undefined_keys import check_undefined_keys
from noetl.language.compiling.undefined_names import check_collected_names, check_scope_names, check_undefined_names
from noetl.language.compiling.workbook import resolve_workbook
from noetl.language.compiling.writes import check_writes
from noetl.language.reading.playbook import Playbook
from noetl.net.debug import DebugMap
from noetl.net.kinds import Kinds
from noetl.net.net import Net


def check_sql_text(playbook: Playbook, compilation: Compilation) -> Playbook:
    """The pass of that name; most playbooks have no SQL, and do without its lexer."""
    if not has_sql(playbook, compilation):
        return playbook
    from noetl.language.compiling.sql_text import check_sql_text

    return check_sql_text(playbook, compilation)


# The order matters: tasks must have names before sugar is expanded into jumps between them, references to the workbook
# must be resolved before kinds and inputs are checked, and templates are looked at last, in what will run.
PASSES: tuple[Pass, ...] = (
    check_step_names,
    # rewriting: to canonical task lists
    name_tasks,
    expand_sugar,
    check_task_names,
    resolve_workbook,
    check_tool_kinds,
    check_inputs,
    check_input_shapes,
    # checking: references between the parts
    check_jumps,
    check_targets,
    check_writes,
    check_credentials,
    check_spec_keys,
    check_python_code,
    check_step_results,
    # checking: templates
    check_template_syntax,
    check_scope_names,
    check_task_results,
    check_undefined_keys,
    check_sql_fragments,
    check_sql_text,
    # advice (VAL-20)
    check_unmatched,
    check_accepted_errors,
    check_accepted_failures,
    check_exhausted_retries,
    check_error_kinds,
    check_shadows,
    check_event_names,
)


class Compiled(msgspec.Struct, frozen=True):
    """`net` is None only when it cannot be built; a playbook with errors may still have one."""

    net: Net | None
    debug: DebugMap


def compile_playbook(playbook: Playbook, kinds: Kinds, findings: Findings, *, extensions: bool = False) -> Compiled:
    """Run every pass, then lower what they made."""
    compilation = Compilation(kinds, findings, extensions)
    for each in PASSES:
        playbook = each(playbook, compilation)
    debug: DebugMap = {}
    net = lower_playbook(playbook, kinds, debug)
    if net is not None:
        check_undefined_names(playbook, net, compilation)
        check_collected_names(playbook, net, compilation)
    return Compiled(net, debug)

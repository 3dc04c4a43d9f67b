"""A playbook with a limit on how many of its executions run at once."""

from __future__ import annotations

from tests.control.waiting import ControlPlane

ONE = """
workload: {{customer: ann, naps: 1h}}
executor: {{spec: {{concurrency: {{{limited}}}}}}}
workflow:
  - step: start
    timer: {{duration: "{{{{ workload.naps }}}}"}}
"""


def limited(how: str = "limit: 1") -> str:
    return ONE.format(limited=how)


async def statuses(control_plane: ControlPlane, *ids: str) -> list[str]:
    return [await control_plane.status(one) for one in ids]

"""Looking at executions from outside, while servers come and go."""

from __future__ import annotations

from collections.abc import Iterable

from noetl.base.errors import NoetlError
from tests.cluster.machines import Cluster, Member
from tests.waiting import until

OVER = ("completed", "failed", "cancelled")
ENDED_S = 90.0
NOT_FOR_OPERATORS = "Traceback", "never retrieved", '"exception"', "never awaited"
OUTAGES = "cannot", "not", "lost", "again", "fail"


def status_of(grounds: Cluster, execution_id: str) -> str | None:
    """None while no server can tell."""
    for server in range(len(grounds.urls)):
        try:
            return grounds.kept_client(server).get(execution_id).status
        except NoetlError:
            continue
    return None


def end_of(grounds: Cluster, execution_id: str, within_s: float = ENDED_S) -> str:
    def look() -> str | None:
        status = status_of(grounds, execution_id)
        return status if status in OVER else None

    return until(look, within_s, f"{execution_id} did not end")


def ends_of(grounds: Cluster, execution_ids: Iterable[str], within_s: float = ENDED_S) -> list[str]:
    """How each of them ended."""
    return [end_of(grounds, one, within_s) for one in execution_ids]


def lines_of(member: Member) -> list[str]:
    """The log lines of a process, without those of requests, executions and the first start."""
    files = sorted(member.cluster.folder.glob(f"{member.name}-*.log"))
    lines = "\n".join(file.read_text(errors="replace") for file in files).splitlines()
    routine = (
        '"event": "request"',
        '"event": "execution.ended"',
        "others can read the token file",
        "created a master key",
    )
    return [line for line in lines if not any(one in line for one in routine)]


def has_begun_a_task(grounds: Cluster, execution_id: str) -> bool:
    with grounds.client() as client:
        events = client.event_page(execution_id).events
    return any(event["event_type"] == "task.started" for event in events)

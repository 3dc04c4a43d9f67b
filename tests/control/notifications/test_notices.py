"""The messages of notices: what a stranger wrote into a title or an error stays text."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from noetl.control.notifications.notices import NoticeBody, NoticeMessage, message_of
from noetl.net.net import Destination
from noetl.store.notices import NoticeRow
from noetl.templates.values import Authored

STRANGER = (
    "Refund\nLink:      https://evil.example\u2028Due: now <!channel> <https://evil.example|ours> [ours](https://e)"
)


def sent_to(kind: str, **written: Any) -> NoticeMessage:
    facts = {
        "at": "2024-01-01T00:00:00Z",
        "execution": {"id": "e1", "duration_s": 1.0, "url": "https://noetl.example/executions/e1?a=1&b=2"},
        "error": {"kind": "python.error", "message": STRANGER, "code": None, "step": "start"},
        "task": {"id": "t1", "title": STRANGER, "role": "boss", "user": None, "url": "https://noetl.example/tasks/t1"},
    }
    body = NoticeBody(destination=Destination(kind=kind, options={}), facts=facts, **written)
    row = NoticeRow(
        notice_id="n1", execution_id="e1", path="a", event="failed", rule="ops", created_at=0, due_at=0, body=b""
    )
    return message_of(msgspec.structs.replace(row, body=msgspec.json.encode(body)), body, now=0)


@pytest.mark.req("NTF-08")
@pytest.mark.parametrize("kind", ["email", "slack", "teams", "webhook"])
def test_a_title_or_an_error_cannot_add_a_line_that_looks_like_a_field(kind: str) -> None:
    lines = sent_to(kind).text.splitlines()

    assert [line for line in lines if line.startswith(("Link:", "Due:"))] == [
        "Link:      https://noetl.example/tasks/t1"
    ]
    assert sum("evil.example" in line for line in lines) == 4, "nothing of it is lost"


@pytest.mark.req("NTF-08")
@pytest.mark.parametrize("written", [{}, {"text": Authored("<!here> {{ task.title }}: {{ error.message }}")}])
def test_a_title_or_an_error_calls_no_channel_and_makes_no_link_in_a_chat(written: dict[str, Any]) -> None:
    slack, teams = sent_to("slack", **written).text, sent_to("teams", **written).text

    assert "<!channel>" not in slack
    assert "<https://" not in slack
    assert "&lt;!channel&gt; &lt;https://evil.example|ours&gt;" in slack
    assert ("<!here>" in slack) is bool(written), "the author of the playbook may call somebody"
    assert "](" not in teams
    assert "[ours] (https://e)" in teams


@pytest.mark.req("NTF-08")
def test_mails_and_webhooks_have_the_text_as_it_is() -> None:
    sent = [sent_to(kind, text=Authored("{{ task.title }}")) for kind in ("email", "webhook")]

    assert [one.text for one in sent] == [STRANGER, STRANGER]
    assert sent[1].data["task"]["title"] == STRANGER

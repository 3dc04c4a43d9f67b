"""Secrets are released only to the holder of the order (KEY-07, reliability.md §2.6)."""

from __future__ import annotations

import msgspec
import pytest

from noetl.base.errors import ToolError
from noetl.control.commit.result_cache import ResultCache
from noetl.control.secrets.release import Past, SecretRelease
from noetl.events.secret_materials import Ask
from noetl.store.memory import MemoryStore
from noetl.store.results.files import MemoryResults
from tests.engine_script import Conversation
from tests.secrets.vaults import new_keychain

TEXT = """
keychain: [{name: api, kind: env}]
workflow: [{step: start, tool: {kind: python, code: "result = keychain"}}]
"""
PAST = Past(MemoryStore(), ResultCache(MemoryResults()).read)


def claimed() -> tuple[Conversation, Ask]:
    conversation = Conversation(TEXT)
    conversation.start()
    conversation.claim("start")
    run = conversation.run("start")
    assert run.lease.order_id is not None
    return conversation, Ask(
        execution_id="x1", order_id=run.lease.order_id, lease_epoch=run.lease.lease_epoch, worker_id="w1", name="api"
    )


@pytest.mark.req("KEY-07")
async def test_the_lease_holder_receives_the_secret() -> None:
    conversation, ask = claimed()
    desk = SecretRelease(lambda: new_keychain(environment={"API": "the value"}))

    _, found = await desk.answer(ask, conversation.plan, conversation.execution, PAST)

    assert found.text_or_fields() == "the value"
    assert "the value" not in msgspec.json.encode([event.payload for event in conversation.log]).decode()


@pytest.mark.req("KEY-07")
@pytest.mark.parametrize("changed", [{"lease_epoch": 2}, {"worker_id": "w2"}, {"order_id": "other"}])
async def test_a_worker_without_the_lease_receives_no_secret(changed: dict[str, object]) -> None:
    conversation, ask = claimed()
    desk = SecretRelease(lambda: pytest.fail("the keychain was opened"))

    with pytest.raises(ToolError, match="no longer held"):
        await desk.answer(msgspec.structs.replace(ask, **changed), conversation.plan, conversation.execution, PAST)

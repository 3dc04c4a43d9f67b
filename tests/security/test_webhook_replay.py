"""Attack: somebody who has caught one delivery of a webhook and sends copies of it. Its id is not signed."""

from __future__ import annotations

from tests.server.access.ground import Ground
from tests.server.access.webhook_senders import sender_on


async def test_a_replayed_delivery_cannot_take_the_id_of_a_later_one() -> None:
    sender = await sender_on(Ground())
    caught = sender.headers(b'{"order": 7}', delivery="order-7")
    first = await sender.send(b'{"order": 7}', headers=caught)
    copy = await sender.send(b'{"order": 7}', headers={**caught, "noetl-delivery": "order-8"})
    later = await sender.send(b'{"order": 8}', delivery="order-8")
    await sender.client.aclose()

    assert (first.status_code, copy.status_code, later.status_code) == (202, 202, 202)
    assert copy.json()["execution_id"] == first.json()["execution_id"]
    # The clock stands still, so the two have no order.
    assert sorted(payload["body"]["order"] for payload in await sender.started()) == [7, 8]

"""The catalogue's promises, kept by every backend (SRV-10)."""

from __future__ import annotations

import msgspec
import pytest

from noetl.base.errors import ReplacedError
from noetl.store.contract import Store
from noetl.store.installation import Registration


def playbook(
    content: str, *, path: str = "jobs/a", label: str | None = None, origin: str | None = None
) -> Registration:
    return Registration(
        path=path, net_hash=content, net=content.encode(), label=label, source=f"# {content}", origin=origin, at=1000.0
    )


@pytest.mark.req("SRV-10", "SRV-02")
async def test_registering_a_path_again_makes_a_new_version_unless_the_content_is_equal(store: Store) -> None:
    versions = [(await store.catalog.register(playbook(content))).version for content in ("h1", "h1", "h2", "h1")]

    assert versions == [1, 1, 2, 3]
    newest = await store.catalog.find("jobs/a")
    assert newest is not None
    assert (newest.version, newest.net_hash, newest.source) == (3, "h1", "# h1")
    assert [row.version for row in await store.catalog.versions("jobs/a")] == [3, 2, 1]
    assert await store.net("h2") == b"h2"


@pytest.mark.req("SRV-10")
async def test_a_registration_over_an_outdated_version_is_refused(store: Store) -> None:
    def over(version: int, content: str) -> Registration:
        return msgspec.structs.replace(playbook(content), over=version)

    assert (await store.catalog.register(over(0, "h1"))).version == 1
    for version in (0, 2):
        with pytest.raises(ReplacedError, match="newest version is 1") as refused:
            await store.catalog.register(over(version, "h2"))
        assert refused.value.version == 1
    assert (await store.catalog.register(over(1, "h2"))).version == 2
    assert (await store.catalog.register(over(1, "h2"))).version == 2  # said twice
    assert len(await store.catalog.versions("jobs/a")) == 2


async def test_a_version_is_found_by_its_number_or_by_its_label(store: Store) -> None:
    await store.catalog.register(playbook("h1", label="2"))
    await store.catalog.register(playbook("h2", label="beta"))
    await store.catalog.register(playbook("h3", label="beta"))

    found = {version: await store.catalog.find("jobs/a", version) for version in ("1", "2", "beta", "9", "gamma")}

    assert {version: row and row.net_hash for version, row in found.items()} == {
        "1": "h1",
        "2": "h2",
        "beta": "h3",
        "9": None,
        "gamma": None,
    }
    assert await store.catalog.find("jobs/unknown") is None


async def test_the_newest_version_of_each_path_is_listed_by_path(store: Store) -> None:
    for content, path in (("h1", "b"), ("h2", "a"), ("h3", "b")):
        await store.catalog.register(playbook(content, path=path))

    assert [(row.path, row.net_hash) for row in await store.catalog.paths()] == [("a", "h2"), ("b", "h3")]


async def test_a_net_records_the_file_it_was_last_registered_from(store: Store) -> None:
    await store.catalog.register(playbook("h1", origin="/first"))
    await store.catalog.register(playbook("h1", origin="/second"))
    await store.catalog.register(playbook("h1"))
    await store.catalog.register(playbook("h2", path="other"))

    assert await store.catalog.origin("h1") == "/second"
    assert await store.catalog.origin("h2") is None
    assert await store.catalog.origin("h9") is None

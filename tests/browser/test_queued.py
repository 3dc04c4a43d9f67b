"""A step that no worker has taken yet is queued: in the net, the timeline and at the head of its execution, with since
when and, if that is long, why."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.audit import findings
from tests.browser.conftest import PATIENCE_MS, Picture
from tests.browser.profiles import move
from tests.browser.remote_workers import administrator, remote_worker
from tests.browser.serving import Site, site

TRAINING = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: training, path: tests/training }
workflow:
  - step: start
    next: { arcs: [{ step: train }] }
  - step: train
    spec: { pool: gpu }
    tool: { name: fit, kind: python, code: "result = {'loss': 0.1}" }
    next: { arcs: [{ step: end }] }
  - step: end
"""


@pytest.fixture(scope="module")
def unmanned(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server that no worker works for."""
    with site(tmp_path_factory.mktemp("unmanned"), workers=0) as found:
        found.register(TRAINING)
        yield found


@pytest.fixture
def page(browser: Browser, unmanned: Site) -> Iterator[Page]:
    with administrator(browser, unmanned, f"/executions/{unmanned.start('tests/training')}", PATIENCE_MS) as found:
        yield found


def step(page: Page, name: str) -> Locator:
    return page.locator(".step", has_text=name)


def test_an_unclaimed_step_is_shown_as_queued_with_time_and_reason(page: Page, picture: Picture) -> None:
    expect(step(page, "train")).to_have_attribute("data-state", "queued")
    expect(step(page, "train")).to_contain_text("0 running")
    expect(step(page, "train")).to_contain_text("1 queued")
    queue = page.get_by_role("status", name="Queued steps")
    expect(queue).to_contain_text("Step train is queued since")
    expect(queue).to_contain_text('No worker serves the pool "gpu": noetl worker start --pool gpu', ignore_case=True)
    for width, height in ((1280, 800), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            picture(page, f"queued-{width}-{scheme}")
            assert findings(page) == []

    queue.get_by_role("link", name="train").click()

    side = page.get_by_role("complementary", name="Step train")
    expect(side.locator(".status")).to_contain_text("queued")
    expect(side).to_contain_text("since")


def test_the_timeline_shows_a_queued_step(page: Page, picture: Picture) -> None:
    expect(step(page, "train")).to_be_visible()
    page.get_by_role("tab", name="Timeline").click()

    bar = page.get_by_role("list", name="Step runs by time").get_by_role("listitem").filter(has_text="train")
    expect(bar).to_contain_text("train, queued")
    expect(bar.locator("rect.queued title")).to_contain_text("queued since")
    picture(page, "queued-timeline")
    assert findings(page) == []


def test_a_claimed_step_is_no_longer_shown_as_queued(unmanned: Site, page: Page) -> None:
    expect(page.get_by_role("status", name="Queued steps")).to_be_visible()
    execution_id = page.url.rpartition("/")[2]

    with remote_worker(unmanned, pool="gpu"):
        assert unmanned.ended(execution_id) == "completed"
        expect(step(page, "train")).to_have_attribute("data-state", "completed")

    expect(page.get_by_role("status", name="Queued steps")).to_have_count(0)
    told = unmanned.api.get(f"executions/{execution_id}/events").json()["events"]
    scheduled = max(one["seq"] for one in told if one["event_type"] == "step.scheduled" and one["step"] == "train")
    move(page, f"/executions/{execution_id}?at={scheduled}")
    expect(step(page, "train")).to_have_attribute("data-state", "queued")
    expect(page.get_by_role("status", name="Queued steps")).to_have_count(0)

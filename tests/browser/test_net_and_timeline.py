"""Details of the net and the timeline: nothing covers a condition, tokens stay on their arcs, and every retry is
shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.conftest import Picture, is_followed
from tests.browser.serving import Site

BRANCHES = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: branches, path: tests/branches }
workload: { amount: 5, customer: acme }
workflow:
  - step: start
    tool: { kind: noop }
    next:
      arcs:
        - { step: small, when: "{{ workload.amount < 100 and workload.customer == 'acme' }}" }
        - { step: medium, when: "{{ workload.amount < 1000 and workload.amount >= 100 }}" }
        - { step: end, when: "{{ workload.amount >= 1000 }}" }
  - step: small
    tool: { kind: noop }
    next: { arcs: [{ step: end, when: "{{ event.name == 'step.done' and workload.amount > 1 }}" }, { step: medium }] }
  - step: medium
    tool: { kind: noop }
    next: { arcs: [{ step: end }] }
  - step: end
"""
PAGES = """apiVersion: noetl.io/v10
kind: Playbook
metadata: { name: pages, path: tests/pages }
workflow:
  - step: start
    tool:
      - name: first
        kind: noop
        spec: { policy: { rules: [{ else: { then: { do: continue, set_iter: { page: 0 } } } }] } }
      - name: pages
        while:
          when: "{{ iter.page < 2 }}"
          then:
            - name: fetch
              kind: noop
              spec:
                policy:
                  rules: [{ else: { then: { do: continue, set_iter: { page: "{{ iter.page + 1 }}" } } } }]
"""
WATCHING = """
window.strays = [];
new MutationObserver((changes) => {
  for (const change of changes) for (const node of change.addedNodes) {
    const found = node.matches?.(".journey") ? [node] : [...(node.querySelectorAll?.(".journey") ?? [])];
    for (const one of found) requestAnimationFrame(() => {
      const path = one.closest("g, svg").querySelector("path");
      const [dot, way] = [one.getBoundingClientRect(), path.getBoundingClientRect()];
      const x = dot.left + dot.width / 2, y = dot.top + dot.height / 2;
      const isOn = x > way.left - 12 && x < way.right + 12 && y > way.top - 12 && y < way.bottom + 12;
      window.strays.push({ isOn, x, y });
    });
  }
}).observe(document, { childList: true, subtree: true });
"""
COVERED = """() => {
  const all = (selector) => [...document.querySelectorAll(selector)].map((one) => one.getBoundingClientRect());
  const [labels, steps] = [all(".label"), all(".step")];
  const meets = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  return { labels: labels.length, covered: labels.filter((one) => steps.some((step) => meets(one, step))).length };
}"""


def test_no_step_covers_the_condition_of_an_arc(open_at: Callable[[str], Page], here: Site, picture: Picture) -> None:
    here.register(BRANCHES)
    page = open_at("/catalog/edit/tests/branches")
    expect(page.locator(".step")).to_have_count(4)
    page.locator(".label").first.wait_for()
    picture(page, "branches")

    found: dict[str, Any] = page.evaluate(COVERED)

    assert found["labels"] >= 4
    assert found["covered"] == 0


def test_a_moving_token_is_drawn_on_its_arc_from_the_first_frame(page: Page, here: Site) -> None:
    page.emulate_media(reduced_motion="no-preference")
    page.add_init_script(WATCHING)
    execution_id = here.start("tests/waiting", order=77)
    here.until_waiting(execution_id, "pay")
    page.goto(f"{here.url}/executions/{execution_id}")
    is_followed(page, here, execution_id)

    here.api.post("messages", json={"name": "paid", "correlation": {"order": 77}}).raise_for_status()

    page.wait_for_function("() => window.strays.length > 0")
    assert [one for one in page.evaluate("window.strays") if not one["isOn"]] == []


def test_retries_are_drawn_in_the_row_of_their_step(open_at: Callable[[str], Page], here: Site) -> None:
    execution_id = here.start("tests/failing")
    here.ended(execution_id)
    page = open_at(f"/executions/{execution_id}?tab=time")
    row = page.get_by_role("listitem").filter(has_text="start").first

    expect(row).to_contain_text("2 retries")
    expect(row.locator("rect.backoff")).to_have_count(2)


def test_the_timeline_hides_generated_tasks(open_at: Callable[[str], Page], here: Site) -> None:
    here.register(PAGES)
    execution_id = here.start("tests/pages")
    assert here.ended(execution_id) == "completed"
    page = open_at(f"/executions/{execution_id}?tab=time")

    expect(page.get_by_role("list", name="Step runs by time")).to_contain_text("fetch")
    expect(page.get_by_role("list", name="Step runs by time")).not_to_contain_text("__")


def test_the_event_filter_is_in_the_address(open_at: Callable[[str], Page], here: Site) -> None:
    execution_id = here.start("tests/chain", n=2)
    here.ended(execution_id)
    page = open_at(f"/executions/{execution_id}?tab=events")
    page.get_by_label("Kind of event").select_option("loop.iteration.done")
    expect(page.locator(".event")).to_have_count(2)
    page.get_by_label("Find in events").fill("each")
    expect(page).to_have_url(f"{here.url}/executions/{execution_id}?tab=events&kind=loop.iteration.done&find=each")

    page.reload()

    expect(page.locator(".event")).to_have_count(2)
    expect(page.get_by_label("Find in events")).to_have_value("each")

    page.get_by_role("tab", name="Logs").click()

    expect(page.get_by_label("Find in logs")).to_have_value("")  # what was looked for elsewhere hides nothing here

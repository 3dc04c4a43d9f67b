"""An audit of a page: serious axe findings, and names, focus, contrast and width by rules of our own (`audit.js`)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from playwright.sync_api import Page

AXE = Path(__file__).parents[2] / "ui" / "node_modules" / "axe-core" / "axe.min.js"
_RUN_AXE = """async () => {
  const found = await axe.run(document, { resultTypes: ["violations"] });
  const grave = found.violations.filter((one) => one.impact === "serious" || one.impact === "critical");
  const said = (one, node) => `axe ${one.id}: ${node.target.join(" ")}: ${node.failureSummary}`;
  return grave.flatMap((one) => one.nodes.map((node) => said(one, node)));
}"""


@cache
def _script(name: str) -> str:
    text = Path(__file__).with_name(name).read_text("utf-8")
    return "\n".join(line for line in text.splitlines() if not line.startswith("//"))


def findings(page: Page) -> list[str]:
    found: list[str] = page.evaluate(_script("audit.js"))
    return found + _by_axe(page)


def out_of_reach(page: Page, within: str = "body") -> list[str]:
    """The elements that cannot be read or clicked in a window of this size: see `reach.js`."""
    found: list[str] = page.evaluate(_script("reach.js"), within)
    return found


def _by_axe(page: Page) -> list[str]:
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(AXE.read_text("utf-8"))  # as the test's own script, which the page's policy does not bind
    found: list[str] = page.evaluate(_RUN_AXE)
    return found

"""Rows of HTTP answers, page by page (`page`): by number, by a token the answer names, or by the address of the next.

`rows` is the dotted path to the rows in a body, `page.next` and `page.more` paths to what leads on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

from noetl.base.errors import ToolError
from noetl.engine.pipeline.dotted_paths import at_path
from noetl.tools.transfer.calls import TransferEnd
from noetl.tools.transfer.contract import Chunk, TransferPosition
from noetl.tools.transfer.rows import rows_in


class HttpSource:
    def __init__(self, end: TransferEnd) -> None:
        self._end = end
        page = end.said.get("page")
        if page is not None and not isinstance(page, Mapping):
            raise ToolError("transfer.input", "source.page must be a mapping such as {param: page, start: 1}")
        self._page: Mapping[str, Any] | None = page
        if page is not None and not page.get("param") and not page.get("next"):
            raise ToolError("transfer.input", 'source.page needs "param", or "next": the path to the next address')

    async def chunks(self, position: TransferPosition) -> AsyncIterator[Chunk]:
        while not position.end:
            answer = await self._end.call(self._request(position))
            rows = rows_in(answer["data"], self._end.said.get("rows"), f"{answer['url']}")
            position = self._then(position, answer["data"], answer["url"], bool(rows))
            yield Chunk(rows, position)

    def _request(self, position: TransferPosition) -> dict[str, Any]:
        page = self._page
        if page is None:
            return {}
        if not page.get("param"):
            return {} if position.at is None else {"url": position.at, "params": None}
        at = position.at if position.at is not None else page.get("start", None if page.get("next") else 1)
        params = self._end.said.get("params")
        return {
            "params": {
                **(params if isinstance(params, Mapping) else {}),
                **({page["param"]: at} if at is not None else {}),
            }
        }

    def _then(self, position: TransferPosition, body: Any, url: str, any_rows: bool) -> TransferPosition:
        page = self._page
        if page is None or (page.get("more") and not at_path(body, str(page["more"]))):
            return TransferPosition(end=True)
        if not page.get("next"):
            at = position.at if position.at is not None else page.get("start", 1)
            return TransferPosition(at + page.get("step", 1), end=not any_rows)
        following = at_path(body, str(page["next"]))
        if not following:
            return TransferPosition(end=True)
        if following == position.at:
            raise ToolError("transfer.input", f'page.next leads from "{following}" to itself')
        return TransferPosition(following if page.get("param") else _same_origin(url, str(following)))


def _same_origin(url: str, following: str) -> str:
    """The address of the next page. A credential goes with every request, so it must not lead elsewhere."""
    target = urljoin(url, following)
    if urlsplit(target)[:2] != urlsplit(url)[:2]:
        raise ToolError("transfer.input", f"page.next leads to another server: {urlsplit(target).netloc}")
    return target

"""A response's body, in pieces and within bounds (reliability.md §2.5, response bombs).

What counts is the size after decompression; a body that grows a hundredfold on the way is refused before it is large.
"""

from __future__ import annotations

from contextlib import aclosing

import httpx2

from noetl.base.errors import ToolError

MAX_RATIO = 100
RATIO_FROM_BYTES = 1024 * 1024
_MAX_SKIPPED_BYTES = 64 * 1024


async def read_body(response: httpx2.Response, max_bytes: int, what: str) -> bytes:
    """All of a body. ToolError `result.too_large` as soon as it is known to be too long."""
    declared = response.headers.get("content-length", "")
    encoded = "content-encoding" in response.headers
    is_head = response.request.method == "HEAD"
    if not encoded and not is_head and declared.isdecimal() and int(declared) > max_bytes:
        raise _too_long(what, f"{int(declared):,} bytes", max_bytes)
    pieces: list[bytes] = []
    size = 0
    async with aclosing(response.aiter_bytes()) as arriving:
        async for piece in arriving:
            pieces.append(piece)
            size += len(piece)
            if size > max_bytes:
                raise _too_long(what, f"more than {max_bytes:,} bytes", max_bytes)
            if encoded and size > RATIO_FROM_BYTES and size > MAX_RATIO * response.num_bytes_downloaded:
                raise _bomb(what)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def skip_body(response: httpx2.Response) -> None:
    """Read a body nobody wants, so that its connection can be used again; a long one is cut off instead."""
    size = 0
    async with aclosing(response.aiter_raw()) as arriving:
        async for piece in arriving:
            size += len(piece)
            if size > _MAX_SKIPPED_BYTES:
                break
    await response.aclose()


def _too_long(what: str, size: str, max_bytes: int) -> ToolError:
    return ToolError("result.too_large", f"{what} gave a body of {size}, and spec.max_bytes allows {max_bytes:,}")


def _bomb(what: str) -> ToolError:
    message = f"{what} gave a body that grows more than {MAX_RATIO} times when it is decompressed"
    return ToolError("result.too_large", message)

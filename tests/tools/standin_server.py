"""An MCP server of the SDK itself, over HTTP or on its standard streams: `python standin_server.py http|stdio`."""

from __future__ import annotations

import asyncio
import os
import sys
import time

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("tests")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def fail(text: str) -> str:
    """Fail, and say why."""
    raise ToolError(text)


@server.tool()
def variable(name: str) -> str:
    """A variable of the environment."""
    return os.environ.get(name, "")


@server.tool()
def long(size: int) -> str:
    """So many characters."""
    return "x" * size


@server.tool()
def sleep(file: str) -> str:
    """Write the id of this process to a file, and sleep."""
    with open(file, "w") as out:
        out.write(str(os.getpid()))
    time.sleep(600)
    return "awake"


@server.tool()
async def wait(file: str) -> str:
    """Write the id of this process to a file, and wait for another file, while others are served."""
    with open(file, "w") as out:
        out.write(str(os.getpid()))
    while not os.path.exists(f"{file}.end"):
        await asyncio.sleep(0.1)
    return "over"


@server.tool()
def complaints(day: str) -> list[dict[str, str]]:
    """The complaints of customers on a day."""
    texts = ["The parcel is three weeks late", "Two cups were broken, and I need them today", "Why is tea so dear?"]
    return [{"id": f"{day}/{number}", "text": text} for number, text in enumerate(texts)]


@server.resource("notes://today")
def today() -> str:
    """A note."""
    return "buy milk"


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        import uvicorn

        app = server.streamable_http_app()
        uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="error")

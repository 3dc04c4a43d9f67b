"""The service that Restate calls, served by hypercorn over HTTP/2."""

from __future__ import annotations

import restate

bench = restate.Service("Bench")


@bench.handler()
async def chain(ctx: restate.Context, steps: int) -> int:
    for _ in range(steps):
        await ctx.run_typed("step", lambda: 1)
    return steps


@bench.handler()
async def loop(ctx: restate.Context, items: int) -> int:
    """The items as parallel journalled steps of one invocation, Restate's fastest way."""
    await restate.gather(*(ctx.run_typed("step", lambda: 1) for _ in range(items)))
    return items


app = restate.app([bench])

"""Computations that requests ask for and that take seconds of processor time: checks and drawings of texts, replays of
logs, pages of large values.

They run in a few threads of their own. Those of `asyncio.to_thread` store and load the results of executions: 24 checks
of one large text once took all of them, and every execution stood still for a minute. What looks at something has
other threads than what starts something, so that no row of checks delays a start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Found = TypeVar("Found")
# Two: one long replay does not hold up a short one. More would only share one processor among them.
_VIEWS = ThreadPoolExecutor(max_workers=2, thread_name_prefix="view")
_STARTS = ThreadPoolExecutor(max_workers=2, thread_name_prefix="start")


async def computed(
    compute: Callable[Parameters, Found], /, *arguments: Parameters.args, **named: Parameters.kwargs
) -> Found:
    """What `compute` gives, for a request that looks at something."""
    return await asyncio.get_running_loop().run_in_executor(_VIEWS, partial(compute, *arguments, **named))


async def computed_for_start(compute: Callable[[], Found]) -> Found:
    """What `compute` gives, for a request that starts or registers something."""
    return await asyncio.get_running_loop().run_in_executor(_STARTS, compute)

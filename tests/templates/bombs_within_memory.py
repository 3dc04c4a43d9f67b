"""As a program: sets off each template bomb in a process of its own that may take 64 MiB more than it has, and writes
what became of it as a line of JSON.

The processes are forked from one that has imported everything, so that each begins with the same memory.
"""

from __future__ import annotations

import json
import os
import resource
import sys

from bench.template_bombs import BOMBS, SCOPE
from noetl.base.errors import TemplateError
from noetl.templates.expression import parse
from tests.volume import one_in

MOST_BYTES = 64 << 20


def explode(text: str) -> str:
    """The outcome of the bomb: the message of its error. Anything else that is raised ends the process."""
    with open("/proc/self/statm") as file:
        mapped = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + MOST_BYTES, mapped + MOST_BYTES))
    try:
        parse(text).evaluate(SCOPE, now=0.0)
    except TemplateError as error:
        return error.message
    raise AssertionError("it was evaluated to its end")


def ended_as(text: str) -> str | None:
    """The message of a bomb that was set off in a forked process; None where the process ended in any other way."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        with os.fdopen(writing, "w") as answer:
            answer.write(explode(text))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        message = answer.read()
    _, status = os.waitpid(child, 0)
    return message if status == 0 else None


if __name__ == "__main__":
    for text in one_in(2, BOMBS):
        sys.stdout.write(json.dumps(ended_as(text)) + "\n")
        sys.stdout.flush()

"""`noetl` in processes of its own, forked from one that has imported everything.

The tests start some thousand of them, and two thirds of their processor time was spent importing the same modules.
`Popen` and `run` are those of `subprocess`, with the same arguments, `run_line` takes a line of a shell; a `noetl`
among them is forked from a template that the first of them starts, everything else is executed as ever.
NOETL_TESTS_EXECUTE=1 executes all of them, as `make test-deep` does.

    popen.py      the process as a test sees it
    template.py   the process they are forked from
    messages.py   what the two say to each other
"""

from tests.forked.popen import NOETL, Popen, run, run_line

__all__ = ["NOETL", "Popen", "run", "run_line"]

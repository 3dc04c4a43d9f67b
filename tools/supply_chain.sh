#!/bin/sh
# Lists the locked dependencies, and checks them for known vulnerabilities.
#   supply_chain.sh sbom    writes dist/noetl.cdx.json, a bill of materials (CycloneDX)
#   supply_chain.sh audit   looks each of them up in the vulnerability database; fails if it has an entry
# Both tools are in a separate environment, so that their dependencies are not those of NoETL.
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
    output=$(mktemp)
    trap 'rm -f "$output"' EXIT
    code=0
    "$tools/bin/pip-audit" --requirement requirements.lock --require-hashes --disable-pip --progress-spinner off \
        --timeout 20 >"$output" 2>&1 || code=$?
    cat "$output"
    # If the database does not answer, nothing is known about the dependencies: print a large warning, but do not fail.
    # Vulnerabilities that were found before it stopped answering are a failure, whatever words describe them.
    if [ "$code" -ne 0 ] && ! grep -qiE 'found [0-9]+ known vulnerabilit' "$output" && grep -qiE 'connection|timed out|unreachable|ServiceError|HTTPError|resolve|proxy' "$output"; then
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

# Every verb of this project. `make` alone lists them.
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-groups test-modules test-ui test-deep soak check format bench golden conformance docs docs-site wheel client ui lock sbom licences audit clean

PY := .venv/bin/python
READY := .venv/.ready
QUANTUM := .venv/.quantum
DOCS := .venv/.docs
DEPLOY := .venv/.deploy
UI := src/noetl/_ui/index.html

# Compiled modules are kept, regardless of the settings of the shell: the tests start some thousand processes, and each
# would compile a thousand modules, which took two thirds of their processor time. They are in a separate folder and not
# among the sources; `make clean` removes it.
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX := $(CURDIR)/.venv/compiled

# The cache of mypy is kept beside the programs that the tests fetch: in a fresh clone, mypy would otherwise check everything
# again, which takes 39 s of processor time. It compares contents, so clones of different commits can share the cache.
export MYPY_CACHE_DIR ?= $(or $(NOETL_TEST_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/noetl-tests)/mypy

help: ## list the verbs
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-12s %s\n", $$1, $$2}'

# `make test PYTHON=python3.13`: an environment of another version is replaced.
VERSION := -c 'import sys; print(*sys.version_info[:2])' 2>/dev/null
ifdef PYTHON
ifneq ($(shell $(PY) $(VERSION)),$(shell $(PYTHON) $(VERSION)))
.PHONY: $(READY)
endif
endif

$(READY): requirements.lock pyproject.toml tools/bootstrap.sh
	@sh tools/bootstrap.sh

# Without Qiskit the providers that need it are not tested: this prints a note, and those tests are reported as skipped.
$(QUANTUM): requirements-quantum.lock $(READY)
	@sh tools/bootstrap.sh quantum || echo "make: QISKIT WAS NOT INSTALLED; its tests are skipped" >&2

$(DOCS): requirements-docs.lock $(READY)
	@sh tools/bootstrap.sh docs

# Without these the files of deploy/ are not checked: this prints a note, and those tests are reported as skipped.
$(DEPLOY): requirements-deploy.lock $(READY)
	@sh tools/bootstrap.sh deploy || echo "make: THE TOOLS THAT CHECK deploy/ WERE NOT INSTALLED; its tests are skipped" >&2

setup: $(READY) ## make .venv with everything the other verbs need

demo: $(READY) ## check, draw, prove and run an example, from nothing
	@$(PY) -m tools.demo

# Without Node there is no UI to test: this prints a note, and those tests are reported as skipped.
$(UI): $(READY) $(shell find ui -path ui/node_modules -prune -o -path ui/test-results -prune -o -type f -print 2>/dev/null)
	@sh tools/ui.sh || echo "make: THE WEB UI WAS NOT BUILT; no browser test can run" >&2

test: $(READY) ## what CI runs: style, types and the tests
	@$(MAKE) --no-print-directory -j 3 --output-sync $(UI) test-groups test-modules
	@.venv/bin/ruff format --check --quiet . && .venv/bin/ruff check --quiet .
	@sh tools/test.sh
	@$(PY) -m tools.conformance --quiet

# One after another: they install into one environment.
test-groups: $(READY)
	@MAKEFLAGS= $(MAKE) --no-print-directory $(QUANTUM) $(DOCS) $(DEPLOY)

# pytest rewrites the assertions of every module that it imports for the first time, and each of its processes would do it
# again. Here it is done once, while other goals download. Errors of the collection are reported by the tests themselves.
test-modules: $(READY)
	@[ -e .venv/.modules ] || { .venv/bin/pytest -q --collect-only > .venv/modules.log 2>&1 && touch .venv/.modules; } || true

test-ui: $(UI)
	@if [ -d ui/node_modules ] && command -v npm >/dev/null; then cd ui && npm run --silent check && npm test --silent; fi

test-deep: $(READY) $(QUANTUM) $(DOCS) $(DEPLOY) $(UI) ## the same with large volumes; takes long
	@NOETL_DEEP=1 NOETL_TESTS_EXECUTE=1 .venv/bin/pytest -n 3 --dist worksteal --timeout 1800 --ignore tests/browser
	@NOETL_DEEP=1 .venv/bin/pytest --timeout 1800 tests/browser

soak: $(READY) ## an hour of loads on real processes that are killed and frozen (ARGS="--minutes 5" for less)
	@$(PY) -m tests.cluster.soak $(ARGS)

# The tools of ui/ are installed with its build: a machine without Node checks the Python alone, and says so.
check: $(READY) ## format, lint and strict types only
	@.venv/bin/ruff format --check --quiet . && .venv/bin/ruff check --quiet . && .venv/bin/mypy
	@if [ -x ui/node_modules/.bin/eslint ] && command -v npm >/dev/null; then cd ui && npm run --silent lint; \
	else echo "make: ui/ was not checked (make ui installs its tools)" >&2; fi

format: $(READY) ## rewrite the code in the house style
	@.venv/bin/ruff format . && .venv/bin/ruff check --fix .
	@if [ -x ui/node_modules/.bin/eslint ] && command -v npm >/dev/null; then cd ui && npm run --silent format; fi

bench: $(READY) ## measure; writes bench/results/ and prints a table (ARGS=--quick for a minute, ARGS="--peers --cluster" with peers and servers)
	@$(PY) bench/run.py $(ARGS)

golden: $(READY) ## rewrite the golden files; read the diff before you commit it
	@NOETL_GOLDEN=1 .venv/bin/pytest -q -m "not deep" tests/golden tests/language/compiling tests/scenarios || true
	@$(MAKE) --no-print-directory docs
	@git status --short tests docs

conformance: $(READY) ## every requirement with the tests that show it
	@$(PY) -m tools.conformance

docs: $(READY) ## rewrite the generated pages of docs/
	@$(PY) -m tools.docs

docs-site: $(READY) $(DOCS) ## build the documentation as a site into the package; a server shows it at /docs
	@PYTHONPATH=tools NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict

wheel: $(READY) $(DOCS) $(UI) ## build the wheel into dist, with the web UI and the documentation in it
	@$(PY) -m hatchling build --target wheel

client: $(READY) ## write the blocking client from the asynchronous one
	@$(PY) -m tools.blocking_client

ui: $(READY) ## build the web UI into the package
	@sh tools/ui.sh

lock: ## pin the newest versions of all dependencies, with hashes and without addresses
	@uv export --quiet --no-emit-project --no-header --no-annotate --group dev --format requirements-txt -o requirements.lock
	@uv export --quiet --no-emit-project --no-header --no-annotate --only-group quantum --format requirements-txt -o requirements-quantum.lock
	@uv export --quiet --no-emit-project --no-header --no-annotate --only-group docs --format requirements-txt -o requirements-docs.lock
	@uv export --quiet --no-emit-project --no-header --no-annotate --only-group deploy --format requirements-txt -o requirements-deploy.lock
	@uv export --quiet --no-emit-project --no-header --no-annotate --no-default-groups --extra postgres --extra nats --extra duckdb --extra storage --extra email --extra otel --format requirements-txt -o deploy/requirements.lock

sbom: $(READY) ## write a bill of materials of the locked dependencies (CycloneDX) to dist/
	@sh tools/supply_chain.sh sbom

licences: $(READY) ## write the licences of all dependencies to dist/licences.md
	@$(PY) -m tools.licences

audit: $(READY) ## ask the vulnerability database for the locked dependencies; loud where it cannot be reached
	@sh tools/supply_chain.sh audit

clean: ## remove what the other verbs made
	@rm -rf .demo .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Every target sets up what it needs; a second run starts at once.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
READY := .venv/.ready
# One more than two cores: the tests with real processes mostly wait.
WORKERS ?= 3
# The data sets that do not come with a package; tests that need them are skipped without.
export COLONNADE_DATA ?= $(abspath ../shared/data)
# The browser that pages are tested in: Debian's, installed where that needs no more than root.
CHROMIUM := /usr/bin/chromium
# What is compiled is kept: else every worker, and every process of a test, compiles all anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo browser test test-all torture fuzz check bench bench-wan bench-large docs docs-serve format clean
help:            ## this list
	@grep -hE '^[a-z-]+: .*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(READY): pyproject.toml constraints.txt
	@echo "Setting up .venv (once; a few minutes on a slow line)"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(READY)   ## three methods between three real processes, and what they cost
	@$(BIN)/colonnade demo

browser:         ## Debian's chromium (root); without it the tests in a browser are skipped
	@test -x $(CHROMIUM) || { test "$$(id -u)" = 0 && command -v apt-get && apt-get update \
	  && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium \
	  fonts-dejavu-core; } >/dev/null 2>&1 \
	  || echo "chromium could not be installed: the tests in a browser are skipped"

test: $(READY) browser ## the test suite
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m 'not slow'

test-all: $(READY) browser ## the test suite with its slow part
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

torture: $(READY) ## kill parties of a real job at random, and see that nothing is lost
	$(BIN)/python -m tests.torture

fuzz: $(READY)   ## 100,000 mutated segments against a live server
	$(BIN)/python -m tests.fuzz --count 100000

check: $(READY)  ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY) ## let ruff format and mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)  ## speed as ratios, measured side by side in one run
	$(BIN)/python -m benchmarks.light
	$(BIN)/python -m benchmarks.codecs
	$(BIN)/python -m benchmarks.cipher
	$(BIN)/python -m benchmarks.network
	$(BIN)/python -m benchmarks.alignment
	$(BIN)/python -m benchmarks.predict
	$(BIN)/python -m benchmarks.serve
	$(BIN)/python -m benchmarks.report

bench-wan: $(READY) ## the transport over emulated slow lines (root)
	$(BIN)/python -m benchmarks.wan

bench-large: $(READY) ## tables larger than memory: speed and memory (20 minutes, 15 GB of disk)
	$(BIN)/python -m benchmarks.large

docs: $(READY)   ## the documentation as a site, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "site/index.html"

docs-serve: $(READY) ## the same at http://127.0.0.1:8000, made anew when a page changes
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve

clean:           ## remove what the targets made
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

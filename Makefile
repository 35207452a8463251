# Everything a fresh machine needs is made here, inside this checkout: .venv (Python), .cache (jars, downloads), .demo (the demo's Airflow).
# Prerequisites: Python 3.10+ and make. Java 17, and Kerberos, libfaketime and Chromium for the tests, are installed where that may be done, or the message says the one command to run.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PROCESSES ?= 3
MINUTES ?= 3
READY := $(VENV)/.ready
PACKAGE := airflow_provider_kafka_spark

export PROCESSES
export UV_CACHE_DIR := $(CURDIR)/.cache/uv
export PIP_CACHE_DIR := $(CURDIR)/.cache/pip
export AIRFLOW__KAFKA_SPARK__CACHE_FOLDER := $(CURDIR)/.cache
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Tests start some hundred Python processes; without its cache each of them would compile Airflow anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup java kdc chromium demo demo-ui docs test test-fast test-long test-lowest test-touched breakages faults check format bench errors-page constraints clean

help: ## Show the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) java kdc chromium ## Make the Python environment and find Java 17, Kerberos and Chromium (the other commands do this themselves)

$(READY): setup.cfg constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
		|| { echo "Python 3.10 or newer is needed; $(PYTHON) is $$($(PYTHON) --version). Name another: make PYTHON=python3.11 ..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) \
		|| { echo "Python's venv module is needed. On Debian or Ubuntu: apt-get install python3-venv"; rm -rf $(VENV); exit 1; }
	@mkdir -p -m 700 .cache
	@echo "Installing the Python environment into $(VENV) (about a minute the first time)..."
	@awk '/^uv==/ { found = 1 } found { print } found && !/\\$$/ { exit }' constraints.txt > $(VENV)/uv.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement $(VENV)/uv.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt --editable '.[dev]'
	@touch $@

java:
	@sh .ci/install_java

kdc:
	@sh .ci/install_kdc

chromium:
	@sh .ci/install_chromium

demo: $(READY) java ## Run the main job on an embedded broker: an hourly copy and a replay, with the proof that every record arrived
	@$(BIN)/python -m tests.demo

demo-ui: $(READY) java ## Open the Airflow UI on the demo's environment (make demo first)
	@$(BIN)/python -m tests.demo --ui

test: setup ## Run the tests, with a real broker, real Spark and real Airflow (about 15 minutes); PROCESSES=1 for a small machine
	@$(BIN)/python -m $(PACKAGE).prepare
	@$(BIN)/python -m tests.run whole

test-fast: $(READY) java ## Run the tests that need no broker, no Spark and no Airflow database (40 seconds)
	@$(BIN)/python -m tests.run quick

test-long: setup ## Run what the other tests prove once in full: all clusters, versions, examples and faults (more than an hour)
	@$(BIN)/python -m $(PACKAGE).prepare
	@$(BIN)/python -m tests.run long

test-lowest: $(READY) java ## Run what meets other packages of the quick ring, and one real copy, with the lowest versions that setup.cfg permits
	@sh .ci/test_lowest

test-touched: setup ## Run those parts of the long ring whose code was changed in the last hours, as far as MINUTES go
	@$(BIN)/python -m tests.touched --minutes $(MINUTES)

breakages: setup ## Break the code in some hundred places, one after the other, and see that a test fails for each
	@$(BIN)/python -m tests.breakages.run

check: $(READY) ## Lint, format, types, layer rules: what CI runs before the tests
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --cache-dir .cache/import-linter --config setup.cfg
	@sh .ci/check_java
	@sh .ci/check_words $(PACKAGE) dags tests benchmarks docs README.md CHANGELOG.md CONTRIBUTING.md

faults: setup ## Draw 300 faults of copies, 100 chains of clears and 30 unclean elections (hours; DRAWS=30 DRAW_SEED=7)
	@DRAWS=$${DRAWS:-300} $(BIN)/python -m pytest --numprocesses=$(PROCESSES) --dist=load tests/faults tests/operators -m fault

format: $(READY) ## Format the code and fix what the linter can
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

bench: $(READY) java ## Measure against the peers, side by side (long; see benchmarks/README.md)
	@$(BIN)/python -m benchmarks --output benchmarks/RESULTS.md

docs: $(READY) ## Build the site of the documentation into .docs; a broken link is an error
	@AIRFLOW_HOME=$(CURDIR)/.cache/docs-airflow $(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --builder html docs .docs
	@echo "Open .docs/index.html"

errors-page: $(READY) ## Write docs/reference/errors.md from core/errors
	@$(BIN)/python .ci/write_errors_page.py > docs/reference/errors.md

constraints: $(READY) ## Resolve constraints.txt anew from constraints.in, and the lowest versions into .ci/lowest.txt
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.10 --extra dev setup.cfg --constraint constraints.in \
		--no-header --no-annotate --generate-hashes --output-file constraints.txt
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.10 --extra spark4 --extra kubernetes --resolution lowest-direct setup.cfg .ci/lowest.in \
		--no-header --no-annotate --output-file .ci/lowest.txt

clean: ## Remove everything that these commands made
	rm -rf $(VENV) .cache .demo .docs build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache

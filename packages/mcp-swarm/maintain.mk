# Targets for those who work on mcp-swarm itself. A project made from the template has no such file.

DIST ?= dist
SBOM ?= build/sbom.cdx.json
SUITE := $(CHASSIS)/tests/conformance/node_modules/.ready
.PHONY: docs docs-serve reference test-all test-swarm test-attacks bench bench-exchange bench-generators bench-jobs \
  conformance wheel sbom

# The package's tests, unless ARGS names some of them.
WHERE := $(if $(filter $(CHASSIS)/%,$(ARGS)),,$(CHASSIS)/tests)
# Exit code 5 of pytest: there are none of these.
SIDE_BY_SIDE = $(BIN)/python -m pytest $(WHERE) --dist loadfile

# ARGS=tests/test_words.py runs this file alone.
test::
	@$(if $(filter tests/%,$(ARGS)),,$(SIDE_BY_SIDE) -n 3 -m "not alone and not slow" $(ARGS) || [ $$? = 5 ])

test-all: $(READY) ## run all tests of mcp-swarm (half an hour; REQUIRE=docker,browser makes their skips failures)
	@$(if $(WHERE),$(BIN)/python -m pytest)
	@$(SIDE_BY_SIDE) -n 2 -m "not alone" $(ARGS) || [ $$? = 5 ]
	@$(BIN)/python -m pytest $(WHERE) -m alone $(ARGS) || [ $$? = 5 ]

test-swarm: $(READY) ## run the tests of the stack in the Swarm that docker reaches (skips without one)
	@$(BIN)/python -m pytest $(CHASSIS)/tests/swarm $(ARGS)

test-attacks: $(READY) ## attack a replica: five minutes at random, 200,000 failing calls (a quarter of an hour)
	@ATTACK_SECONDS=300 ENDURANCE_CALLS=200000 $(BIN)/python -m pytest $(CHASSIS)/tests/attacks -rP $(ARGS)

docs: reference ## build the documentation site in build/site (fails on a broken link)
	@$(BIN)/zensical build --strict

docs-serve: reference ## show the documentation site on http://localhost:8001, and rebuild it when a page changes
	@$(BIN)/zensical serve --dev-addr localhost:8001

reference: $(READY) ## write the pages of docs/reference that come from the code
	@PYTHONPATH=$(CHASSIS) $(BIN)/python -m reference

lint::
	@cd $(CHASSIS) && $(CURDIR)/$(BIN)/mypy
	@PYTHONPATH=. $(BIN)/lint-imports --config $(CHASSIS)/pyproject.toml

bench: $(READY) ## measure what the README claims (half an hour; ARGS=--quick: three minutes, roughly)
	@$(BIN)/python -m benchmarks.suite $(ARGS)

bench-exchange: $(READY) ## measure what a call costs, as a ratio to the barest ASGI app (ten minutes)
	@$(BIN)/python -m benchmarks.exchange $(ARGS)

bench-generators: $(READY) ## hold the load test beside wrk and other clients (four minutes)
	@$(BIN)/python -m benchmarks.generators $(ARGS)

bench-jobs: $(READY) ## measure long jobs with a Redis, two replicas and two workers (two minutes; needs redis-server)
	@$(BIN)/python -m benchmarks.jobs $(ARGS)

wheel: $(READY) ## build the wheel and the source distribution of mcp-swarm into dist/
	@$(BIN)/uv build --quiet --no-build-isolation --python $(BIN)/python --out-dir $(DIST) $(CHASSIS)
	@ls $(DIST)

sbom: $(READY) ## write the bill of materials of requirements.lock (CycloneDX) to build/
	@mkdir -p $(dir $(SBOM))
	@$(BIN)/python $(CHASSIS)/sbom.py $(BIN)/uv $(SBOM)
	@echo "Wrote $(SBOM)."

conformance: $(READY) $(SUITE) ## run the official conformance suite against three replicas
	@REQUIRE=node $(BIN)/python -m pytest $(CHASSIS)/tests/conformance $(ARGS)

$(SUITE): $(CHASSIS)/tests/conformance/package-lock.json
	@echo "Installing the conformance suite and its Node …" >&2
	@npm ci --prefix $(CHASSIS)/tests/conformance --silent --no-audit --no-fund
	@touch $@

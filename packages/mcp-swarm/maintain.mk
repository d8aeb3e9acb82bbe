# Targets for those who work on mcp-swarm itself. A project made from the template has no such file.

SUITE := $(CHASSIS)/tests/conformance/node_modules/.ready
.PHONY: test-all test-swarm test-attacks bench bench-exchange bench-generators bench-jobs conformance

# The package's tests, unless ARGS names some of them.
WHERE := $(if $(filter $(CHASSIS)/%,$(ARGS)),,$(CHASSIS)/tests)
# Exit code 5 of pytest: there are none of these.
SIDE_BY_SIDE = $(BIN)/python -m pytest $(WHERE) --dist loadfile

test::
	@$(SIDE_BY_SIDE) -n 3 -m "not alone and not slow" $(ARGS) || [ $$? = 5 ]

test-all: $(READY) ## run all tests of mcp-swarm (half an hour; REQUIRE=docker,browser makes their skips failures)
	@$(if $(WHERE),$(BIN)/python -m pytest)
	@$(SIDE_BY_SIDE) -n 2 -m "not alone" $(ARGS) || [ $$? = 5 ]
	@$(BIN)/python -m pytest $(WHERE) -m alone $(ARGS) || [ $$? = 5 ]

test-swarm: $(READY) ## run the tests of the stack in the Swarm that docker reaches (skips without one)
	@$(BIN)/python -m pytest $(CHASSIS)/tests/swarm $(ARGS)

test-attacks: $(READY) ## attack a replica: five minutes at random, 200,000 failing calls (a quarter of an hour)
	@ATTACK_SECONDS=300 ENDURANCE_CALLS=200000 $(BIN)/python -m pytest $(CHASSIS)/tests/attacks -rP $(ARGS)

lint::
	@cd $(CHASSIS) && $(CURDIR)/$(BIN)/mypy
	@PYTHONPATH=. $(BIN)/lint-imports --config $(CHASSIS)/pyproject.toml

bench: $(READY) ## run the studies of BENCHMARKS.md (half an hour; ARGS=--quick: about three minutes; ARGS=--all: all studies)
	@$(BIN)/python -m benchmarks.suite $(ARGS)

bench-exchange: $(READY) ## measure what a call costs, as a ratio to the barest ASGI app (ten minutes)
	@$(BIN)/python -m benchmarks.exchange $(ARGS)

bench-generators: $(READY) ## compare the load test with wrk (four minutes)
	@$(BIN)/python -m benchmarks.generators $(ARGS)

bench-jobs: $(READY) ## measure long jobs with a Redis, two replicas and two workers (two minutes; needs redis-server)
	@$(BIN)/python -m benchmarks.jobs $(ARGS)

conformance: $(READY) $(SUITE) ## run the official conformance suite against three replicas
	@REQUIRE=node $(BIN)/python -m pytest $(CHASSIS)/tests/conformance $(ARGS)

$(SUITE): $(CHASSIS)/tests/conformance/package-lock.json
	@echo "Installing the conformance suite and its Node …" >&2
	@npm ci --prefix $(CHASSIS)/tests/conformance --silent --no-audit --no-fund
	@touch $@

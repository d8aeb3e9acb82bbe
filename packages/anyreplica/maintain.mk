# Targets for the maintainers of anyreplica. A project that copier made from the template does not have this file.

DIST ?= dist
SBOM ?= build/sbom.cdx.json
SUITE := $(SOURCE)/tests/conformance/node_modules/.ready
# The commands of the suite's packages, and the Node.js that runs them, as seen from $(SOURCE).
NODE := PATH=tests/conformance/node_modules/.bin:$$PATH tests/conformance/node_modules/.bin
# The tests need the packages of the examples, and more.
LOCKS += locks/examples.lock $(SOURCE)/dev.lock
$(READY): $(LOCKS)

.PHONY: docs docs-serve reference pictures test-all test-system test-world test-busy test-swarm test-cluster \
  test-fastmcp test-versions test-attacks bench bench-exchange bench-instructions \
  bench-generators bench-jobs conformance wheel sbom

# All tests of the package, unless ARGS selects some of them. packages/anyreplica/tests/tiers.py describes the tiers.
WHERE := $(if $(filter $(SOURCE)/%,$(ARGS)),,$(SOURCE)/tests)
SIDE_BY_SIDE = $(BIN)/python -m pytest $(WHERE) --dist loadfile
# pytest's exit code 5 means that it found no tests; that is not a failure here.
NONE = [ $$? = 5 ]
# Processes of tests that run at the same time. Tests with servers mostly wait, so each core runs several of them.
CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
# Folders of the tier *system* (tests/tiers.py). `make test` need not read them.
SYSTEM := $(patsubst %,--ignore=$(SOURCE)/tests/%,conformance helm kubernetes swarm world)
QUICK := (not servers and not system and not slow) or smoke
BUSY_SHARE ?= 1
BUSY_LOOPS ?= 4
BUSY_TESTS ?= not system
FASTMCP_SHARE ?= 1

# With ARGS=tests/test_words.py, only this file of the server's tests runs, and no test of anyreplica.
test:: export GENERATED_SHARE ?= 5
test::
	@$(if $(filter tests/%,$(ARGS)),,$(SIDE_BY_SIDE) -n $$(($(CORES) + 1)) -m "$(QUICK)" $(SYSTEM) $(ARGS) || $(NONE))

test-all: $(READY) ## run the tests of anyreplica that need this machine only (15 minutes; REQUIRE=redis: fail instead of skip if Redis is missing)
	@$(if $(WHERE),$(BIN)/python -m pytest)
	@$(SIDE_BY_SIDE) -n $$((3 * $(CORES))) -m "not system" $(ARGS) || $(NONE)

test-system: $(READY) ## run the other tests of anyreplica: builds, several machines, measurements (30 minutes)
	@$(SIDE_BY_SIDE) -n $$((2 * $(CORES))) -m "system and not alone and not world" $(ARGS) || $(NONE)
	@$(BIN)/python -m pytest $(WHERE) -m alone $(ARGS) || $(NONE)

test-world: $(READY) ## run public servers and agent frameworks that others wrote (6 minutes; the first time 12, for downloads)
	@$(BIN)/python -m pytest $(if $(filter $(SOURCE)/%,$(ARGS)),,$(SOURCE)/tests/world) --dist load -n $(CORES) $(ARGS) || $(NONE)

test-busy: $(READY) ## run the tests of test-all beside four busy loops (BUSY_SHARE=10: a tenth of them)
	@PYTHONPATH=$(SOURCE) $(BIN)/python -m tests.busy --loops $(BUSY_LOOPS) $(SIDE_BY_SIDE) -n $(CORES) -m "$(BUSY_TESTS)" --share $(BUSY_SHARE) $(ARGS) || $(NONE)

test-swarm: $(READY) ## run the tests of the stack in the current Docker Swarm (skipped without a Swarm)
	@$(BIN)/python -m pytest $(SOURCE)/tests/swarm $(ARGS)

test-cluster: $(READY) ## run the tests of the chart in the current Kubernetes cluster (skipped without one of .ci/cluster)
	@$(BIN)/python -m pytest $(SOURCE)/tests/kubernetes $(ARGS)

test-fastmcp: $(READY) ## run the tests of FastMCP and of the MCP SDK against anyreplica (15 minutes; fails if a test differs that differences.toml does not have; ARGS: FastMCP's tests only)
	@PYTHONPATH=$(SOURCE) $(BIN)/python -m upstream fastmcp --share $(FASTMCP_SHARE) $(ARGS)
	@PYTHONPATH=$(SOURCE) $(BIN)/python -m upstream fastmcp --sessions full --share 4 $(ARGS)
	@$(if $(ARGS),,PYTHONPATH=$(SOURCE) $(BIN)/python -m upstream sdk)

test-versions: $(READY) ## run a part of the tests with the oldest and the newest versions of all dependencies (3 minutes)
	@UV=$(CURDIR)/$(BIN)/uv PYTHON=$(CURDIR)/$(BIN)/python PROCESSES=$(CORES) ARGS="$(ARGS)" $(SOURCE)/tests/versions.sh

test-attacks: $(READY) ## run the long attack tests: 5 minutes of random input, 200,000 failing calls (15 minutes)
	@ATTACK_SECONDS=300 ENDURANCE_CALLS=200000 $(BIN)/python -m pytest $(SOURCE)/tests/attacks -rP $(ARGS)

docs: reference ## build the documentation site in docs/build/site (fails on a broken link)
	@$(BIN)/zensical build --strict --config-file docs/zensical.toml

# Zensical's cache is beside its configuration, in the folder that it watches. There, each build would start the next one.
docs-serve: reference ## show the documentation site on http://localhost:8001, and rebuild it when a page changes
	@rm -rf docs/.cache && mkdir -p build/docs-cache && ln -s ../build/docs-cache docs/.cache
	@$(BIN)/zensical serve --config-file docs/zensical.toml --dev-addr localhost:8001

reference: $(READY) ## write the pages of docs/reference that come from the code
	@PYTHONPATH=$(SOURCE) $(BIN)/python -m reference

lint::
	@cd $(SOURCE) && $(CURDIR)/$(BIN)/mypy
	@PYTHONPATH=. $(BIN)/lint-imports --config $(SOURCE)/pyproject.toml
	@if [ -e $(SUITE) ]; then cd $(SOURCE) && $(NODE)/tsc && $(NODE)/biome ci --error-on-warnings --colors=off; \
	  else echo "The modules of the console were not checked: run make $(SUITE) once. It needs npm." >&2; fi

locks::
	@$(call compile_after,$(filter locks/%,$(SERVER_LOCKS) $(LOCKS)),$(SOURCE)/pyproject.toml --all-extras \
	  --group $(SOURCE)/pyproject.toml:dev --overrides $(SOURCE)/overrides.txt,$(SOURCE)/dev.lock)
	@$(COMPILE) --no-deps $(SOURCE)/upstream/requirements.in $(SERVER_LOCKS:%=-c %) $(LOCKS:%=-c %) -o $(SOURCE)/upstream/requirements.lock

pictures: $(READY) ## make the pictures of terminals and pages in docs/images (half a minute; needs chromium)
	@cd $(SOURCE) && $(CURDIR)/$(BIN)/python -m reference.pictures

bench: $(READY) ## run the studies of docs/explanation/benchmarks.md (30 minutes; --quick: 3 minutes; --all: all studies)
	@PYTHONPATH=$(SOURCE) $(BIN)/python -m benchmarks.suite $(ARGS)

bench-exchange: $(READY) ## measure the cost of a call, compared with a bare ASGI app (10 minutes)
	@PYTHONPATH=$(SOURCE) $(BIN)/python -m benchmarks.exchange $(ARGS)

bench-instructions: $(READY) ## count the instructions of a call, and compare them with the recorded ones (2 minutes; needs valgrind and gcc)
	@PYTHONPATH=$(SOURCE) $(BIN)/python -m benchmarks.instructions --check $(ARGS)

bench-generators: $(READY) ## compare the load test with wrk (4 minutes)
	@PYTHONPATH=$(SOURCE) $(BIN)/python -m benchmarks.generators $(ARGS)

bench-jobs: $(READY) ## measure jobs with Redis, two replicas and two workers (2 minutes; needs redis-server)
	@PYTHONPATH=$(SOURCE) $(BIN)/python -m benchmarks.jobs $(ARGS)

wheel: $(READY) ## build the wheel and the source distribution of anyreplica into dist/
	@$(BIN)/uv build --quiet --no-build-isolation --python $(BIN)/python --out-dir $(DIST) $(SOURCE)
	@ls $(DIST)

sbom: $(READY) ## write the bill of materials of a server (CycloneDX) to build/
	@mkdir -p $(dir $(SBOM))
	@$(BIN)/python $(SOURCE)/sbom.py $(BIN)/uv $(SBOM)
	@echo "Wrote $(SBOM)."

conformance: $(READY) $(SUITE) ## run the official MCP conformance suite against three replicas
	@REQUIRE=node $(BIN)/python -m pytest $(SOURCE)/tests/conformance $(ARGS)

$(SUITE): $(SOURCE)/tests/conformance/package-lock.json
	@echo "Installing the conformance suite and its Node.js …" >&2
	@npm ci --prefix $(SOURCE)/tests/conformance --silent --no-audit --no-fund
	@touch $@

# The targets people type; CMake does the work. `make help` lists them.
.PHONY: all demo unit test slow bench faults soak fuzz sanitize clocklab slurmlab kubelab s3lab engines mutants reference install clean help
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
CTEST_FLAGS ?=
# Behind a laboratory: that it cannot run here (77) it has said in a sentence, and is no error.
may_skip = || [ $$? -eq 77 ]

all: ## build into build/bin and build/lib
	@scripts/setup.sh build
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS)

demo: ## build what the demonstration needs, run it and show where its results are
	@scripts/setup.sh build
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target demo_programs
	@scripts/demo.sh

test: ## install what tests need, build, run every test (data: MERIDIAN_TEST_DATA)
	@scripts/setup.sh test
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS)
	@ctest --test-dir build -j $$(( 4 * $(JOBS) )) --output-on-failure -LE slow $(CTEST_FLAGS)

unit: ## build and run the unit tests: what to run after each change
	@scripts/setup.sh test
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS)
	@ctest --test-dir build -j $$(( 4 * $(JOBS) )) --output-on-failure -L '^unit$$' $(CTEST_FLAGS)

slow: ## build and run each test labelled slow once: hours (CTEST_FLAGS='-R ^e2e/' selects)
	@scripts/setup.sh test
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS)
	@ctest --test-dir build -j $$(( 4 * $(JOBS) )) --output-on-failure -L slow $(CTEST_FLAGS)

sanitize: ## the whole suite under AddressSanitizer and UndefinedBehaviorSanitizer, then ThreadSanitizer
	@scripts/setup.sh test
	@for preset in asan tsan; do cmake --preset $$preset >/dev/null && \
	  cmake --build --preset $$preset -j $(JOBS) && \
	  ctest --test-dir build-$$preset -j $(JOBS) --output-on-failure -LE slow $(CTEST_FLAGS) || exit 1; done

.PHONY: tsan
tsan: ## the unit tests under ThreadSanitizer (not in the gate; TSAN_TESTS=agent/ for some)
	@scripts/setup.sh test
	@cmake --preset tsan >/dev/null
	@cmake --build --preset tsan -j $(JOBS)
	@ctest --test-dir build-tsan -j $(JOBS) --output-on-failure -L '^unit$$' -R '$(TSAN_TESTS)' -E '^house/' $(CTEST_FLAGS)

reference: all ## make the generated pages of docs/reference again (the test house/reference compares them)
	@scripts/reference.py build/bin

.PHONY: gate coverage format analyse clean-gate
gate: ## what a change has to pass: gcc, clang, format, analysis, tests, sanitizers, coverage
	@.ci/run setup format analyse gcc suite clang sanitize coverage

coverage: ## build with gcov, run the unit tests, print the lines run of each folder
	@scripts/setup.sh gate
	@JOBS=$(JOBS) .ci/run coverage

format: ## format every C source (clang-format 14)
	@scripts/format.sh

analyse: ## static analysis (cppcheck); no finding is allowed
	@scripts/analyse.sh

clean: clean-gate
clean-gate:
	@rm -rf build-gate build-clang build-coverage

bench: all ## measure, each figure beside a reference of the same run
	@scripts/bench.sh

faults: all ## inject faults into jobs: who hangs, who is slow, and who is named (FAULTS='--kinds H --seeds 1-5', --help)
	@nice python3 bench/faults/faults.py $(FAULTS)

soak: all ## an hour of random faults (SOAK_SECONDS=3600)
	@scripts/soak.sh

fuzz: ## fuzz every decoder of outside bytes (FUZZ_SECONDS=60 each; needs clang)
	@scripts/fuzz.sh

clocklab: all ## the two-namespace clock laboratory (root): goal and measured value per row
	@scripts/clocklab.sh

slurmlab: ## a real Slurm (root): on this machine, then a head node and two compute nodes as machines with systemd (SLURMLAB_CASES= for some cases)
	@scripts/setup.sh slurmlab
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS)
	@[ -n "$(SLURMLAB_CASES)" ] || ctest --test-dir build --output-on-failure -R '^e2e/slurm$$'
	@MERIDIAN_BUILD=$(CURDIR)/build python3 tests/slurmlab/slurmlab.py $(SLURMLAB_CASES) $(may_skip)

kubelab: ## a real Kubernetes of two nodes on this machine (root); the first time it builds it (some 25 minutes, KUBELAB_CASES= for some cases)
	@scripts/setup.sh kubelab
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS)
	@tests/kubelab/build.sh && MERIDIAN_BUILD=$(CURDIR)/build python3 tests/kubelab/kubelab.py $(KUBELAB_CASES) $(may_skip)

s3lab: ## the exporter against S3 servers of others: Ceph's radosgw and s3rver (S3LAB_KILLS=12)
	@scripts/setup.sh s3lab
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS)
	@npm install --silent --no-audit --no-fund --ignore-scripts --prefix build/s3lab s3rver@3.7.1 >build/s3lab.log 2>&1 || echo "s3lab: npm cannot fetch s3rver: $$(tail -n 1 build/s3lab.log)"
	@MERIDIAN_BUILD=$(CURDIR)/build S3LAB_KILLS=$(or $(S3LAB_KILLS),12) python3 tests/s3lab/s3lab.py

engines: ## real engines (DuckDB, ClickHouse, Polars, DataFusion, Spark) run the shipped queries; pip installs them into build-engines (1.7 GB; ENGINES='duckdb polars' for some)
	@scripts/setup.sh test
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS)
	@MERIDIAN_BUILD=$(CURDIR)/build python3 tests/engines/engines.py $(ENGINES) $(may_skip)

mutants: ## change one operator, constant or call at a time: do the tests notice? (MUTANTS=16 SEED= MODULES=journal,...)
	@scripts/setup.sh test
	@nice python3 tests/mutants/mutants.py $(if $(MUTANTS),--mutants $(MUTANTS)) $(if $(SEED),--seed $(SEED)) \
	  $(if $(MODULES),--modules $(MODULES))

install: ## build without tests and install under PREFIX (/usr/local), DESTDIR before it
	@scripts/setup.sh build
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target programs
	@DESTDIR=$(DESTDIR) cmake --install build --prefix $(PREFIX)

.PHONY: deb
deb: ## the Debian packages, into build/deb
	@scripts/setup.sh deb
	@JOBS=$(JOBS) scripts/deb.sh

clean: ## remove build trees
	@rm -rf build build-dev build-asan build-tsan build-fuzz build-mutants

help:
	@sed -n 's/^\([a-z0-9]*\):.*## /\1\t/p' Makefile | expand -t 12

# klamm: every command sets up what it needs. `make help` lists them.

PYTHON ?= python3
export PYTHON
VENV   := .venv
BIN    := $(VENV)/bin
STAGE  := tools/stage.sh
PYTEST := $(BIN)/python -m pytest -q --timeout=120
# Tests without real time-outs run in parallel; of those with real processes two files at a time; the others one by one.
SPREAD := -n auto --dist worksteal
# What three brokers answer differently from one.
THREE_BROKERS := $(addprefix tests/interop/,test_admin.py test_kcat.py test_own_client_admin.py)

# A change of these means installing again.
BUILD_INPUTS := pyproject.toml setup.py
# A change of these means compiling again: the core, and the modules that have a .pxd file beside them.
DECLARED := $(shell find src -name '*.pxd')
COMPILED := $(wildcard $(addprefix src/klamm/records/*.,pyx pxi h)) $(shell find src/klamm/storage -name '*.pyx') $(DECLARED) $(DECLARED:.pxd=.py)

.DEFAULT_GOAL := help
.PHONY: help demo test quick format wheels build lint docs unit pure pythons fuzz packages simulation interop faults spark test-crash bench clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /:/' \
	  | awk -F: '{ printf "  make %-11s %s\n", $$1, substr($$0, length($$1) + 2) }'

demo: $(VENV)/.demo ## Run a broker, a consumer group that rebalances, and a Spark job; ends by itself
	@$(BIN)/klamm demo

# Tools first: with a compiler among them, klamm is compiled when it is installed.
test: ## Everything that CI runs: lint, docs, unit, pure, pythons, fuzz, packages, simulation, interop, faults, spark
	@tools/real_tests.sh --forget
	@$(STAGE) tools    tools/bring.sh
	@$(STAGE) install  $(MAKE) --no-print-directory $(VENV)/.dev
	@$(STAGE) lint     $(MAKE) --no-print-directory lint
	@$(STAGE) docs     $(MAKE) --no-print-directory docs
	@$(STAGE) unit     $(MAKE) --no-print-directory unit
	@$(STAGE) pure     $(MAKE) --no-print-directory pure
	@$(STAGE) pythons  $(MAKE) --no-print-directory pythons
	@$(STAGE) fuzz     $(MAKE) --no-print-directory fuzz
	@$(STAGE) packages $(MAKE) --no-print-directory packages
	@$(STAGE) simulation $(MAKE) --no-print-directory simulation
	@$(STAGE) interop  $(MAKE) --no-print-directory interop
	@$(STAGE) faults   $(MAKE) --no-print-directory faults
	@$(STAGE) spark    $(MAKE) --no-print-directory spark
	@$(STAGE) repeats  tools/real_tests.sh --report

# Without Spark and without a compiler, in an environment of its own: for the first ten minutes, and for a quick look.
quick: .venv-quick/.quick ## The tests of both coordinators, in a minute from nothing: no Spark, no compiler
	@KLAMM_PURE=1 .venv-quick/bin/python -m pytest -q --timeout=120 $(SPREAD) tests/unit/coordinator

build: $(VENV)/.built ## Compile what has changed of the compiled modules

format: $(VENV)/.dev ## Lay out the code and mend what ruff can mend by itself
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

lint: $(VENV)/.dev ## Style, types and import contracts; all four run, whatever the first ones find
	@failed=; for check in "ruff check" "ruff format --check" mypy lint-imports; do \
	  $(BIN)/$$check || failed="$$failed, $$check"; \
	done; \
	if [ -n "$$failed" ]; then echo "make lint: failed:$${failed#,}. make format mends layout" >&2; exit 1; fi

docs: $(VENV)/.dev ## The documentation site, in build/site; broken links and missing pages are errors
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

unit: $(VENV)/.built ## Unit tests
	@$(PYTEST) $(SPREAD) tests/unit

pure: $(VENV)/.built ## Tests of compiled code again, as plain Python; and those that replace parts of compiled classes
	@KLAMM_PURE=1 $(PYTEST) $(SPREAD) --ignore-glob='*/test_core_*' tests/unit/records tests/unit/protocol tests/unit/client/consumer/fetch \
	  tests/unit/coordinator tests/unit/broker/net tests/unit/broker/coordinators tests/unit/storage/test_kernel_sync.py
	@KLAMM_PURE=1 $(PYTEST) $(SPREAD) -m plain tests/unit/protocol tests/simulation

pythons: $(VENV)/.dev ## Tests of coordinators and clients on the oldest and the newest Python of this machine, as plain Python
	@tools/oldest_newest.sh $(BIN)/python

fuzz: $(VENV)/.built ## The compiled core on damaged input, under address and undefined-behaviour sanitizers
	@$(PYTEST) --timeout=300 tests/fuzz

packages: $(VENV)/.dev ## The wheel and the sdist, built and installed with and without a compiler
	@$(PYTEST) tests/packaging

simulation: $(VENV)/.built ## The whole broker on virtual time, one seed per run; SEEDS=1000 adds fresh ones to each test
	@$(if $(SEEDS),KLAMM_FRESH_SEEDS=$(SEEDS)) $(PYTEST) $(SPREAD) tests/simulation

interop: $(VENV)/.built ## Real clients against a running broker
	@tools/bring.sh
	@tools/real_tests.sh interop $(PYTEST) -n 2 --dist loadfile --durations=12 tests/interop
	@KLAMM_INTEROP_BROKERS=3 tools/real_tests.sh interop-three $(PYTEST) -n 2 --dist loadfile $(THREE_BROKERS)

faults: $(VENV)/.built ## Real processes: kill -9, torn writes, full disks
	@tools/bring.sh
	@tools/real_tests.sh faults $(PYTEST) -n 2 --dist loadfile --durations=12 --timeout=600 tests/faults

spark: $(VENV)/.built ## The pipeline end to end: Spark, klamm's broker and Apache Kafka, two files at a time
	@tools/bring.sh
	@tools/fetch_spark_connector.sh
	@tools/real_tests.sh spark $(PYTEST) -n 2 --dist loadfile --durations=12 --timeout=600 tests/spark

test-crash: $(VENV)/.built ## Every step of an exactly-once batch: the JVM, a Python process and the broker are killed
	@tools/fetch_kafka.sh
	@tools/fetch_spark_connector.sh
	@KLAMM_ALL_CRASHES=1 $(PYTEST) --timeout=900 tests/spark/test_exactly_once_crashes.py tests/spark/test_cluster.py \
	  tests/spark/test_exactly_once.py tests/spark/test_per_task.py

bench: $(VENV)/.built .venv-run/.run ## klamm and Apache Kafka on the same load, one after the other
	@tools/bring.sh
	@PYTHONPATH=src:tests $(BIN)/python -m bench.broker_vs_kafka

wheels: ## What a release has, in dist/: sdist, pure wheel, and the wheels that this machine can make; each is tried
	@tools/wheels.sh $(PYTHON)

clean: ## Remove the virtual environment and everything that was built
	rm -rf $(VENV) .venv-run .venv-quick build dist *.egg-info src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis \
	  .import_linter_cache klamm-data src/klamm/records/_core.c src/klamm/storage/engines/segments/_aio.c
	find src -name '*.so' -delete
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

# Installed as users install it; benchmarks start brokers from it.
.venv-run/.run: $(BUILD_INPUTS) $(COMPILED)
	@tools/make_venv.sh $(PYTHON) $(@D) .
	@touch $@

.venv-quick/.quick: $(BUILD_INPUTS)
	@KLAMM_BUILD=pure tools/make_venv.sh $(PYTHON) $(@D) '.[regex,test]'
	@touch $@

$(VENV)/.demo: $(BUILD_INPUTS)
	@tools/make_venv.sh $(PYTHON) $(VENV) '.[spark]'
	@touch $@

$(VENV)/.dev: $(BUILD_INPUTS)
	@tools/make_venv.sh $(PYTHON) $(VENV) '.[dev]'
	@touch $(VENV)/.demo $(VENV)/.built $@

$(VENV)/.built: $(VENV)/.dev $(COMPILED)
	@$(BIN)/python setup.py -q build_ext --inplace
	@# Where PYTHONDONTWRITEBYTECODE is set Python compiles the rest at each start: a second of each short test run.
	@$(BIN)/python -m compileall -q src
	@touch $@

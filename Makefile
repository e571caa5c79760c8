# Everything a fresh machine needs is Python 3.11+, git, make and a package index.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
CORE   := $(VENV)/.installed-core
PYTEST := $(BIN)/python -m pytest
# Files of tests run side by side, in the order of `tests/longest_first.py`. Three at a time, on two cores too:
# brokers of tests wait more than they work. JVMs work while they start: two.
# A worker that died is not replaced: what killed it would kill the next one.
FILES := --dist loadfile --no-loadscope-reorder --max-worker-restart=0
SIDE_BY_SIDE := -n 3 $(FILES)
# Where the compiled form could behave differently: the folders whose code is compiled, and the judges of the whole.
COMPILED_TESTS := $(addprefix tests/,core protocol records log replica network broker coordinator model fuzz simulation client clients \
	chaos packaging/test_compiled_wheel.py)
# What the extra `core` of pyproject.toml is enough for.
CORE_TESTS := $(addprefix tests/,core protocol records log replica network broker coordinator cluster node admin client clients cli)
MINUTES ?= 10
# Without byte code every broker that a test starts would compile all its sources again (0.3 s each).
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup kerberos postgres browser demo test test-core campaigns campaigns-jvm test-jvm test-compiled fuzz-compiled parity parity-spark suites bounds mutation check format docs site ways bench \
	wheel release-check compile pure clean

help:            ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml .ci/setup.py
	$(PYTHON) .ci/setup.py $(VENV) dev
	@touch $(CORE) $@

$(CORE): pyproject.toml .ci/setup.py
	$(PYTHON) .ci/setup.py $(VENV) core
	@touch $@

setup: $(STAMP)  ## make the virtual environment with everything in it

kerberos: $(STAMP) ## what the tests of GSSAPI need, on Debian as root: a KDC, and the extra 'gssapi'
	command -v krb5kdc >/dev/null && command -v krb5-config >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
		apt-get install -y -qq krb5-kdc krb5-admin-server libkrb5-dev; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[gssapi]'

postgres:        ## what the test of Debezium needs, on Debian as root: PostgreSQL
	ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
		apt-get install -y -qq postgresql; }

browser:         ## what the walks through the console's pages need, on Debian as root: Chromium
	command -v chromium >/dev/null && command -v chromedriver >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
		apt-get install -y -qq chromium chromium-driver; }

demo: $(STAMP)   ## set up and run the main job: a year of flights through a broker and PySpark
	$(BIN)/barnabas demo

test: $(STAMP)   ## set up and pass the tests (no Maven artifacts needed)
	$(PYTEST) -m 'not jvm and not compiled and not campaign' $(SIDE_BY_SIDE)

test-core: $(CORE) ## set up and pass the tests of brokers, clients and tools alone: without Spark, tables and console
	$(PYTEST) -m 'not jvm and not compiled and not campaign' $(SIDE_BY_SIDE) $(CORE_TESTS)

campaigns: $(STAMP) ## searches that take minutes: seeds of the models, kills, damaged files, hostile clients
	$(PYTEST) -m 'campaign and not jvm' $(SIDE_BY_SIDE)

test-jvm: $(STAMP) ## the tests whose judge is Apache Kafka itself (needs Java and Maven)
	$(PYTEST) -m 'jvm and not alone and not campaign' -n 2 $(FILES) --durations=25; code=$$?; $(PYTEST) -m 'jvm and alone' && exit $$code

campaigns-jvm: $(STAMP) ## a database that becomes tables while brokers, Connect and the database are killed: an hour (needs Java, Maven, PostgreSQL)
	BARNABAS_TEST_RUN_MINUTES=120 $(PYTEST) -m 'campaign and jvm'

test-compiled: $(STAMP) ## the tests of what is compiled, after `make compile`, and of the compiled wheel
	$(BIN)/barnabas --version | grep -F '(compiled)'
	$(PYTEST) -m 'not jvm' $(SIDE_BY_SIDE) $(COMPILED_TESTS)

fuzz-compiled: $(STAMP) ## fuzz a compiled broker with assertions and sanitizers: make fuzz-compiled MINUTES=10 (needs gcc)
	$(BIN)/python tests/fuzz/compiled.py --minutes $(MINUTES)

parity: $(STAMP) ## ask Apache Kafka and ours the same, in profile 3.9 and 4.4, compare the answers; MODE=denied or secure: in 3.9 (needs Java and Maven)
	$(BIN)/python -m parity --profile 3.9 --mode $(or $(MODE),plain)
	$(if $(MODE),,$(BIN)/python -m parity --profile 4.4)

parity-spark: $(STAMP) ## fifteen jobs by Spark's official Kafka connector and ours (needs Java and Maven)
	$(BIN)/python -m parity.connectors

suites: $(STAMP) ## suites of outside clients: make suites SUITES=folder-with-their-repositories
	$(BIN)/python tests/suites/run.py $(SUITES)

bounds: $(STAMP) ## the oldest and the newest packages that pyproject.toml allows: tests of each, in environments of their own (END=oldest or newest)
	$(BIN)/python .ci/bounds.py $(END:%=--end %)

mutation: $(STAMP) ## plant bugs, tell which the tests do not see: make mutation FOLDERS="log replica"
	$(BIN)/python tests/mutation/run.py $(FOLDERS) $(if $(SAMPLE),--sample $(SAMPLE))

check: $(STAMP)  ## format, lint, types, layers, dead code
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/vulture

format: $(STAMP) ## rewrite the code in the one format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(STAMP)   ## fill the generated parts of docs: tables of APIs and log lines, the bytes of a request, the figures
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/wire.py
	$(BIN)/python docs/figures.py

site: $(STAMP)   ## build the documents as pages, into build/site/index.html; a warning is an error
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --jobs auto -c docs/site . build/site

ways: $(STAMP)   ## measure five requests from the socket to the answer, into docs/architecture.md
	$(BIN)/python docs/ways.py

bench: compile   ## Apache Kafka 3.9 and both forms of ours side by side (needs Java, Maven, a C compiler)
	$(BIN)/python -m bench --write

wheel: $(STAMP)  ## build a wheel for this machine, its hot modules compiled (needs a C compiler)
	BARNABAS_COMPILE=1 $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

release-check: $(STAMP) ## build sdist and wheels, try them in empty environments, say what is missing for a release; publishes nothing
	$(BIN)/python .ci/release.py $(if $(COMPILED),--compiled) $(PYTHONS:%=--python %)

compile: $(STAMP) ## compile the hot modules of this checkout in place (needs a C compiler)
	$(BIN)/python hatch_build.py

pure: $(STAMP)   ## remove what `make compile` has made
	$(BIN)/python hatch_build.py --remove

clean:           ## remove what was built
	find src -name '*.so' -delete
	rm -rf $(VENV) src/barnabas/compiled.json build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

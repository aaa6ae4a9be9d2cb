# Every target makes .venv by itself and needs only python3 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Tests wait for processes and browsers a third of their time: three at once on two cores.
WORKERS ?= $(shell $(PYTHON) -c "import os; print(3 * os.cpu_count() // 2)")

# Some containers set it; compiling all modules in each process doubles the time of the tests.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: all demo test encrypted test-postgres coverage slow clients lint format fix types hooks bench calls goals peers docs wheel release clean

all: format lint types test

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/pip install --quiet --editable . --group test --group lint --group build
	touch $(STAMP)

# The tour needs memdb and nothing that tests it.
demo: .venv-demo/.installed
	.venv-demo/bin/memdb demo

.venv-demo/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-demo
	.venv-demo/bin/pip install --quiet --disable-pip-version-check --editable .
	touch $@

# A test that its own time-out cannot end (threads wait for each other) ends its worker and is named.
ENDS := -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true

test: $(STAMP)
	$(BIN)/python -m pytest -m "not slow" -n $(WORKERS) --dist worksteal $(ENDS)

# Encryption, and tests of every day over encrypted files: the cipher takes the place of apsw.
encrypted: .venv-encrypted/.installed
	.venv-encrypted/bin/python -m pytest tests/engine/test_cipher.py tests/engine/test_sqlite_release.py tests/sync/test_encrypted.py $(if $(filter no,$(SLOW)),-m "not slow")
	MEMDB_KEY_FILE=.venv-encrypted/test.key .venv-encrypted/bin/python -m pytest -m "not slow" \
	  -n $(WORKERS) tests/conversations tests/context tests/jobs

.venv-encrypted/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-encrypted
	.venv-encrypted/bin/pip install --quiet --upgrade "pip>=25.1"
	.venv-encrypted/bin/pip install --quiet --editable ".[encrypted]" --group test
	.venv-encrypted/bin/pip uninstall --quiet --yes apsw
	.venv-encrypted/bin/pip install --quiet --force-reinstall --no-deps apsw-sqlite3mc
	(umask 077; head -c 32 /dev/urandom >.venv-encrypted/test.key)
	touch $@

# The same over a PostgreSQL server from PyPI; tests/over_server.py lists what cannot hold there.
test-postgres: $(STAMP)
	$(BIN)/python -m pytest -m "not slow" --engine postgres -n $(WORKERS) --dist worksteal --timeout 900

# The tests of `make test`, with their branch coverage; fails under 95 % (pyproject.toml).
coverage: $(STAMP)
	$(BIN)/python -m pytest -m "not slow" -n $(WORKERS) --dist worksteal --timeout 300 --cov --cov-report=term:skip-covered

# Tests that kill, signal and time out each other's processes: one for each core.
SLOW_WORKERS ?= $(shell $(PYTHON) -c "import os; print(os.cpu_count())")

# Ends with a table of what the tests of faults tried, and writes it into docs/reliability.md.
slow: $(STAMP) .venv-patroni/.installed
	rm -rf .counts
	MEMDB_COUNTS=.counts $(BIN)/python -m pytest -m "slow" -n $(SLOW_WORKERS) --dist worksteal --timeout 3600
	MEMDB_COUNTS=.counts $(BIN)/python -m pytest -m "not slow" -n $(SLOW_WORKERS) tests/faults/test_isolation*.py
	$(MAKE) clients
	$(BIN)/python -m pytest -m "hypothesis and not slow" -n $(SLOW_WORKERS) --timeout 3600 --hypothesis-profile thorough
	$(BIN)/python tests/counters.py .counts

# Patroni of the tests of a cluster, under a Python that the user `nobody` can read; with etcd and
# what partitions need, where Debian's packages may be installed. What is missing skips its tests.
.venv-patroni/.installed: tests/faults/postgres/requirements.txt $(STAMP)
	$(firstword $(wildcard /usr/bin/python3) $(PYTHON)) -m venv --clear --without-pip .venv-patroni
	$(BIN)/pip --python .venv-patroni/bin/python install --quiet -r $<
	{ command -v etcd && command -v iptables && command -v pgbouncer; } >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update && \
	  apt-get install -y --no-install-recommends etcd-server iproute2 iptables pgbouncer; } >/dev/null 2>&1 || \
	  echo "no etcd or PgBouncer: the tests of a cluster or a pooler will be skipped"
	touch $@

# The tests of clients, each in an environment of its own: `make clients CLIENT=langgraph` for one
# of them, with its newest release; RELEASE=oldest takes the oldest that memdb supports, and SLOW=no
# leaves out what takes longer than a few seconds.
RELEASE ?= newest
SLOW ?= yes
SUITES := tests/integrations
CLIENT ?= $(patsubst $(SUITES)/requirements/%.txt,%,$(wildcard $(SUITES)/requirements/*.txt))

clients: $(addprefix client-,$(CLIENT))

client-%: $(SUITES)/.venvs/%-$(RELEASE)/.installed
	$(SUITES)/.venvs/$*-$(RELEASE)/bin/python -m pytest -m "not slow$(if $(filter yes,$(SLOW)), or slow)" -o filterwarnings=default --timeout 900 $(SUITES)/with_$*

# requirements/oldest/<client>.txt pins what requirements/<client>.txt gives lower bounds of.
.SECONDARY: # an environment that was made stays
$(SUITES)/.venvs/%-newest/.installed: $(SUITES)/requirements/%.txt pyproject.toml
	$(call client_environment,$(SUITES)/.venvs/$*-newest,-r $<)

$(SUITES)/.venvs/%-oldest/.installed: $(SUITES)/requirements/%.txt $(SUITES)/requirements/oldest/%.txt pyproject.toml
	$(call client_environment,$(SUITES)/.venvs/$*-oldest,-r $< -c $(SUITES)/requirements/oldest/$*.txt)

define client_environment
	$(PYTHON) -m venv $(1)
	$(1)/bin/pip install --quiet --upgrade "pip>=25.1"
	$(1)/bin/pip install --quiet --editable . --group clients $(2)
	$(1)/bin/pip check
	touch $(1)/.installed
endef

format: $(STAMP)
	$(BIN)/ruff format --check .

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/codespell
	$(BIN)/validate-pyproject pyproject.toml
	$(BIN)/lint-imports
	$(BIN)/python docs/words.py
	.ci/page-types

types: $(STAMP)
	$(BIN)/mypy
	$(BIN)/pyright

fix: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

hooks: $(STAMP)
	$(BIN)/pre-commit install

# The goals (25 minutes), memdb beside the raw stack and other memories at 10,000 rows (10) and at
# 100,000 (about an hour), and growth to a million (5); results and plots go into docs/benchmarks.
BENCH_RESULTS := docs/benchmarks
bench: goals peers
	$(BIN)/python bench/beside.py --out $(BENCH_RESULTS)/beside-10000.jsonl --plots $(BENCH_RESULTS)
	$(BIN)/python bench/beside.py --rows 100000 --out $(BENCH_RESULTS)/beside-100000.jsonl --plots $(BENCH_RESULTS)
	$(BIN)/python bench/growth.py --out $(BENCH_RESULTS)/growth.jsonl --plots $(BENCH_RESULTS)

# The calls of every day beside the last ten runs that were kept; KEEP=yes adds this run to them.
calls: $(STAMP)
	$(BIN)/python bench/calls.py --against $(BENCH_RESULTS)/calls.jsonl $(if $(filter yes,$(KEEP)),--keep)

# Every goal of speed and size with its bar and its number, in one table; nothing else should run.
goals: $(STAMP) peers
	$(BIN)/python bench/goals.py --out $(BENCH_RESULTS)/goals.jsonl || true

# Other memories that `bench/beside.py` and `bench/recall.py --peers` ask, each in an environment of its own.
PEERS := $(patsubst bench/peers/requirements/%.txt,bench/peers/.venvs/%/.installed,$(wildcard bench/peers/requirements/*.txt))

peers: $(PEERS)

bench/peers/.venvs/%/.installed: bench/peers/requirements/%.txt
	$(PYTHON) -m venv bench/peers/.venvs/$*
	bench/peers/.venvs/$*/bin/pip install --quiet --disable-pip-version-check -r $< $(WITH_MEMDB)
	touch $@

# What compares both in one process.
bench/peers/.venvs/openai_agents/.installed: WITH_MEMDB := --editable .

# The site, in site/: a warning, a broken link or a public name that no page has is an error.
docs: .venv-docs/.installed
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict

.venv-docs/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/pip install --quiet --upgrade "pip>=25.1"
	.venv-docs/bin/pip install --quiet --editable . --group docs
	touch $@

wheel: $(STAMP)
	rm -rf dist
	$(BIN)/python -m build --wheel --no-isolation --outdir dist .
	.ci/wheel-for-musl $(BIN)/python dist

# Everything of a release but the upload: what is in dist/ can be given to anybody.
release: .venv-release/.installed
	.ci/release

.venv-release/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-release
	.venv-release/bin/pip install --quiet --upgrade "pip>=25.1"
	.venv-release/bin/pip install --quiet --group release
	touch $@

clean:
	rm -rf $(VENV) .venv-demo .venv-docs .venv-patroni .venv-release site bench/peers/.venvs tests/integrations/.venvs dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .counts

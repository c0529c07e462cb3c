# make demo         set everything up and run the main job
# make test         set everything up and run the tests, with a sample of the largest matrices; PYTHON=python3.13 selects another interpreter,
#                   for which the tests of third-party packages (tests/adopt/packages) are skipped
# make test-quick   the quick half of the tests (see QUICK)
# make test-oldest  the quick half with the oldest supported NumPy, SciPy and llvmlite
# make test-jax     the tests of programs exported to StableHLO and JAX, with JAX in a separate environment
# make test-numba   the tests of programs exported to Numba, with Numba in a separate environment
# make test-gpu     the tests that need a GPU, with CuPy
# make nightly      all tests with their whole matrices; 10,000 random programs compiled, 10,000 that write in place, NumPy's and SciPy's own
#                   tests, and random programs with new seeds: all dtypes, keywords, nested transforms, closures, loops, outside state, try, extreme arguments;
#                   SECONDS=60 for a smaller budget: that long for each kind of new programs, the others in proportion
# make lint         style, types, import direction
# make coverage     the tests, with line coverage by package
# make release      wheel and source archive in dist/, checked and tried in a fresh environment
# make bench        the benchmarks, with the other libraries in a separate environment

PYTHON ?= python3
FOUND := $(shell tools/interpreter $(PYTHON))
ifeq ($(FOUND),)
$(error there is no working interpreter $(PYTHON) on this machine; set PYTHON= to a name or a path)
endif

# An empty value switches the variable off: bytecode is written once, not recompiled by each process that a test starts.
export PYTHONDONTWRITEBYTECODE :=

# The environment of python3 is .venv; another interpreter has a separate one: .venv-3.13.
VERSION := $(shell $(FOUND) -c 'import sys; print("%d.%d%s" % (*sys.version_info[:2], getattr(sys, "abiflags", "")))')
VENV := $(if $(filter python3,$(PYTHON)),.venv,.venv-$(VERSION))
BIN := $(VENV)/bin
OLDEST := .venv-oldest

# The quick half leaves out: every function in every mode (tests/surface), the random programs, the drawings and the explorer
# in a browser, the command line, generated source, third-party packages, and the examples of the docs.
QUICK := tests --ignore=tests/surface --ignore=tests/view --ignore=tests/export --ignore=tests/test_programs.py \
	--ignore=tests/test_compiled_programs.py --ignore=tests/cli --ignore=tests/adopt/packages

# The budget of make nightly: seconds for each kind of new programs; the number of the others; seconds for NumPy's and SciPy's suites.
SECONDS ?= 1000
PROGRAMS = $(shell expr $(SECONDS) '*' 10)
REPEATED = $(shell expr $(SECONDS) '*' 2 / 5)

.PHONY: demo test test-jax test-numba test-gpu test-quick test-oldest nightly lint coverage release bench clean

$(VENV)/.ready: pyproject.toml
	$(FOUND) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[test,lint]'
	touch $@

# Packages that the tests adopt, with the default interpreter. The versions of NumPy, SciPy and llvmlite stay. quantecon requires
# numba, which requires another llvmlite; its adopted copy does not use numba. Tests skip packages that cannot be installed.
PACKAGES := $(if $(filter python3,$(PYTHON)),$(VENV)/.packages)
$(VENV)/.packages: $(VENV)/.ready
	$(BIN)/python -m pip freeze | grep -iE '^(numpy|scipy|llvmlite)==' > $(VENV)/versions.txt
	$(BIN)/python -m pip install --quiet -c $(VENV)/versions.txt -e '.[adopt]' || echo "tests/adopt/packages: not all packages are installed"
	$(BIN)/python -m pip install --quiet --no-deps quantecon==0.11.4 || echo "tests/adopt/packages: without quantecon"
	touch $@

# Each dependency at its lower bound: numpy>=2.4.2 becomes numpy==2.4.2.
$(OLDEST)/.ready: pyproject.toml
	$(FOUND) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --upgrade pip
	$(OLDEST)/bin/python -m pip install --quiet -e '.[test]' \
		$$($(FOUND) -c 'import tomllib; print(*(d.replace(">=", "==") for d in tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"]))')
	touch $@

demo: $(VENV)/.ready
	$(BIN)/python examples/demo.py

# Compiled programs are kept from one run of the tests to the next: an entry is found by everything that it depends on, our source
# included. `make nightly`, `make coverage` and pytest by itself begin with an empty folder.
test test-quick: export ADJOINT_CACHE_DIR := $(CURDIR)/build/programs-$(VERSION)

test: $(VENV)/.ready $(PACKAGES)
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-quick: $(VENV)/.ready
	$(BIN)/python -m pytest -n 2 --dist worksteal $(QUICK)

test-oldest: $(OLDEST)/.ready
	$(OLDEST)/bin/python -m pytest -n 2 --dist worksteal $(QUICK)

.venv-jax/.ready: pyproject.toml
	$(FOUND) -m venv .venv-jax
	.venv-jax/bin/python -m pip install --quiet --upgrade pip
	.venv-jax/bin/python -m pip install --quiet 'jax>=0.10'
	touch $@

test-jax: $(VENV)/.ready .venv-jax/.ready
	$(BIN)/python -m pytest -n 2 tests/export -k 'jax or stablehlo'

.venv-numba/.ready: pyproject.toml
	$(FOUND) -m venv .venv-numba
	.venv-numba/bin/python -m pip install --quiet --upgrade pip
	.venv-numba/bin/python -m pip install --quiet 'numba>=0.63' scipy
	touch $@

test-numba: $(VENV)/.ready .venv-numba/.ready
	$(BIN)/python -m pytest -n 2 tests/export -k numba

test-gpu: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet -e '.[cuda]'
	ADJOINT_PROGRAMS=1000 $(BIN)/python -m pytest tests/gpu

nightly: $(VENV)/.ready $(PACKAGES)
	ADJOINT_NIGHT=1 $(BIN)/python -m pytest -n 2 --dist worksteal --durations=50 --durations-min=5
	ADJOINT_PROGRAMS=$(PROGRAMS) $(BIN)/python -m pytest -n 2 tests/test_compiled_programs.py tests/numpy/test_inplace_programs.py
	ADJOINT_SEED=$$(date +%y%j) ADJOINT_PROGRAMS=$(PROGRAMS) $(BIN)/python -m pytest -n 2 tests/export/test_random_programs.py
	ADJOINT_SEED=$$(date +%y%j) ADJOINT_MUTATIONS=$(PROGRAMS) $(BIN)/python -m pytest -n 2 tests/export/test_hostile_files.py
	PYTHONPATH=tests $(BIN)/python -W ignore -m surface.repeat --seconds $(REPEATED) --each 12
	for kind in mixed compiled wide wide-compiled whole statements stateful nests stencils zeros masks; do \
		PYTHONPATH=tests $(BIN)/python -m fuzz $$kind --first $$(date +%y%j)00000 --count 10000 --seconds $(SECONDS) || exit 1; done

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

coverage: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet -e '.[coverage]'
	$(BIN)/python -m pytest -n 2 --cov=adjoint --cov-report=term --cov-report=html:build/coverage

release: $(VENV)/.ready
	rm -rf dist .venv-release
	$(BIN)/python -m pip install --quiet -e '.[release]'
	$(BIN)/python -m build --quiet
	$(BIN)/python -m twine check --strict dist/*
	$(FOUND) -m venv .venv-release
	.venv-release/bin/python -m pip install --quiet dist/*.whl
	.venv-release/bin/python -P -c 'import adjoint as ad; print(ad.__version__, ad.__file__, ad.jit(ad.grad(lambda x: x**3))(2.0))'

.venv-bench/.ready: pyproject.toml
	$(FOUND) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --upgrade pip
	.venv-bench/bin/python -m pip install --quiet -e '.[bench]'
	touch $@

bench: .venv-bench/.ready
	.venv-bench/bin/python benchmarks/eager.py
	.venv-bench/bin/python benchmarks/surface.py
	.venv-bench/bin/python benchmarks/graphs.py
	mkdir -p build
	.venv-bench/bin/python benchmarks/compiled.py --json build/compiled.json --plot build/compiled.svg

clean:
	rm -rf .venv .venv-* build dist

# make demo   set everything up and run the main job
# make test   set everything up and run all tests
# make nightly  10,000 random programs compiled, and every function
# make lint   style, types, import direction
# make bench  the benchmarks, with their peers in an environment of their own

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test nightly lint bench clean

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[test,lint]'
	touch $@

demo: $(VENV)/.ready
	$(BIN)/python examples/demo.py

test: $(VENV)/.ready
	$(BIN)/python -m pytest -n 2

nightly: $(VENV)/.ready
	ADJOINT_PROGRAMS=10000 $(BIN)/python -m pytest -n 2 tests/test_compiled_programs.py tests/surface -k 'program or compiled'

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.venv-bench/.ready: pyproject.toml
	$(PYTHON) -m venv .venv-bench
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
	rm -rf $(VENV) .venv-bench build dist

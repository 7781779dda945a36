# Two commands for a newcomer: `make demo` and `make test`. Each sets up .venv first if it has to.
# Another Python: `PYTHON=python3.12 make test`. Other versions of what it needs: `make test VERSIONS=jax==0.10.2`, or
# `VERSIONS=` for the newest.

PYTHON ?= python3
VENV ?= .venv
VERSIONS ?= -c constraints.txt
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help demo test lint pytest test-slow torture tables docs wheel smoke benchmark clean

help:
	@echo "make demo       set up, train on the embedded digits, print a table, write demo-report/report.html"
	@echo "make test       set up, run the linters and the tests (under 8 minutes on two cores)"
	@echo "make test-slow  the tests that take minutes or need data sets"
	@echo "make torture    kills, faults, damaged files, malformed arguments, load: up to 30 minutes; SEED=1 for another seed"
	@echo "make tables     write the documentation's tables anew from the files under results/"
	@echo "make docs       build the documentation into docs/_build"
	@echo "make wheel      build the wheel and the sdist into dist/ and check their metadata"
	@echo "make smoke      install the wheel in dist/ where nothing else is, and run an example with it"
	@echo "make benchmark  ten members as one program against a PyTorch loop, on this machine"

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if v >= (3, 11) else "Python 3.11 or newer is needed, this is %d.%d; try PYTHON=python3.12 make test" % v)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' $(VERSIONS)
	@touch $@

demo: $(STAMP)
	$(BIN)/nu-ensembles demo --out demo-report --overwrite

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

# The linters use one core, and the tests two processes, most of whose time is compiling: all three beside one another.
test: $(STAMP)
	@$(MAKE) --no-print-directory -j2 lint pytest

# Tests of a file share what its fixtures trained.
pytest: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-slow: $(STAMP)
	NU_ENSEMBLES_TEST_OPTIMISED=1 $(BIN)/python -m pytest -n 2 --dist loadfile -m slow

SEED ?= 0
torture: $(STAMP)
	$(BIN)/python benchmarks/torture --seed $(SEED) --out results/torture.json

# What trains something is left out: `python docs/make_tables.py --help` says how to measure it.
tables: $(STAMP)
	$(BIN)/python docs/make_tables.py

docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]' $(VERSIONS)
	$(BIN)/python -m sphinx -W -b html docs docs/_build

wheel: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build twine
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m twine check --strict dist/*

smoke:
	rm -rf build/smoke
	$(PYTHON) -m venv build/smoke
	build/smoke/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl $(VERSIONS)
	build/smoke/bin/python -I -c 'from importlib.resources import files; assert (files("nu_ensembles") / "py.typed").is_file()'
	build/smoke/bin/nu-ensembles doctor
	build/smoke/bin/python examples/quickstart.py

benchmark: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'torch==2.13.0'
	$(BIN)/python benchmarks/members_vs_torch_loop.py

clean:
	rm -rf $(VENV) docs/_build docs/jupyter_execute demo-report build dist

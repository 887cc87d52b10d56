# The commands of the project. `make help` prints them from their own comments.

PYTHON ?= python3
VENV   ?= .venv
PEERS  ?= numba numexpr jax torch==2.13.0
ARGS   ?=

BIN   := $(VENV)/bin
BENCH := .venv-bench
PIP   := -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo test lint types check check-slow golden bench registers docs clean

help:  ## print this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## */\1\t/' | expand -t 14

demo: $(VENV)/.stamp  ## run examples/tour.py: four programs against NumPy, pictures and report in build/demo/
	$(BIN)/python -u examples/tour.py $(ARGS)

test: $(VENV)/.stamp  ## run the tests, the slow ones left out
	$(BIN)/python -m pytest -q -n 2 $(ARGS)

lint: $(VENV)/.stamp  ## check style and format
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .

types: $(VENV)/.stamp  ## check types, strictly
	$(BIN)/mypy

check:  ## everything CI runs: tests, lint, format, types
	@.ci/run

check-slow: $(VENV)/.stamp  ## run the slow tests: random programs by the thousand, functions on all float32
	$(BIN)/python -m pytest -q -m slow -n 2 $(ARGS)

golden: $(VENV)/.stamp  ## rewrite the golden texts and the outputs in docs/; review the difference like code
	$(BIN)/python -m pytest -q tests/golden tests/test_docs.py --golden-update $(ARGS)

bench: $(BENCH)/.stamp  ## time every case against every peer; ARGS="--only softmax" and the like
	$(BENCH)/bin/python -m fjit bench $(ARGS)

registers: $(VENV)/.stamp  ## GPU registers, foreseen and linked, in a table; ARGS="--fit" fits the model anew
	$(BIN)/python -m fjit.bench.registers $(ARGS)

docs: $(VENV)/.stamp  ## build the documentation into build/docs/
	$(BIN)/mkdocs build --quiet --strict --site-dir build/docs

clean:  ## delete everything make has made, the environments too
	rm -rf build dist site $(VENV) $(BENCH) .pytest_cache .hypothesis .mypy_cache .ruff_cache
	find fjit tests examples -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.stamp: pyproject.toml
	@echo "Making $(VENV) (once; a minute or two)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python $(PIP) -e '.[dev,cli,testing]'
	@touch $@

# A peer that does not install here is left out and named; the table shows the others.
$(BENCH)/.stamp: pyproject.toml
	@echo "Making $(BENCH) (once; the peers are large)"
	@$(PYTHON) -m venv $(BENCH)
	@$(BENCH)/bin/python $(PIP) -e '.[cli,viz]' scipy threadpoolctl
	@for peer in $(PEERS); do \
	  $(BENCH)/bin/python $(PIP) $$peer || echo "bench: left out $$peer, which did not install"; \
	done
	@touch $@

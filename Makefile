# Two commands are all that is needed: `make demo` and `make test`. Both set up what they use.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
TREE   ?= $(or $(ASSAY_CORPUS),../shared)

.PHONY: demo test lint format bench docs clean

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev,xlsx]"
	@touch $@

demo: $(VENV)/.ready
	$(BIN)/assay demo

test: $(VENV)/.ready
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.ready
	$(BIN)/python -m tests.bench_check
	$(BIN)/python -m tests.bench_runner
	$(BIN)/python -m tests.bench_replay
	$(BIN)/python -m tests.bench_accuracy

docs: $(VENV)/.ready
	$(BIN)/python -m tests.generate_docs

clean:
	rm -rf $(VENV) assay-demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

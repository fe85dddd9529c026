# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# The tests' tensors are small: more threads only wait for each other.
ONE_THREAD := OMP_NUM_THREADS=1

.PHONY: help demo test test-slow lint format clean

help:
	@echo "make demo       install what is needed, then dehaze a short clip and show the result"
	@echo "make test       install what is needed, then lint, types and the test suite"
	@echo "make test-slow  the tests marked slow"
	@echo "make format     rewrite the sources in the house style"
	@echo "make clean      remove the virtual environment and caches"

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $(STAMP)

demo: $(STAMP)
	$(BIN)/python examples/demo.py

test: $(STAMP) lint
	$(ONE_THREAD) $(BIN)/python -m pytest

test-slow: $(STAMP)
	$(ONE_THREAD) $(BIN)/python -m pytest -m slow

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache

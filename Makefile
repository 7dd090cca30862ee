# make run: set everything up and do the main job on this machine. make test: set up, then every check.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: run demo-crash test check format lint type imports tests lab setup clean snapshots schema

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV) what constraints.txt names; torch is the largest part of it."
	$(BIN)/python -m pip install --disable-pip-version-check -e ".[dev,trainer]" -c constraints.txt
	touch $(STAMP)

setup: $(STAMP)

run: $(STAMP)
	$(BIN)/orch deploy
	$(BIN)/orch run -m "make run"

demo-crash: $(STAMP)
	$(BIN)/python -m bench.demo_crash

test: $(STAMP)
	$(MAKE) check

check: format lint type imports tests

format: $(STAMP)
	$(BIN)/ruff format --check .

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/codespell orchestrator trainer tui tests docs README.md CONTRIBUTING.md CHANGELOG.md

type: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)
	$(BIN)/lint-imports

tests: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadgroup

lab: $(STAMP)
	$(BIN)/python -m tests.lab

snapshots: $(STAMP)
	$(BIN)/python -m pytest tests/tui --snapshot-update

schema: $(STAMP)
	$(BIN)/python -c "import json; from orchestrator.core.inventory.shape import json_schema; print(json.dumps(json_schema(), indent=2))" > inventory.schema.json

clean:
	rm -rf $(VENV)

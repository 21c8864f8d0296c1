# Two commands do everything on a fresh machine: `make gates` answers the study, `make test` checks the code.
# Each sets up its own environment in .venv first.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
MODEL  ?=
STUDY  ?=
STUDIES := $(or $(STUDY),$(patsubst %/protocol.toml,%,$(sort $(wildcard gates/*/protocol.toml examples/*/protocol.toml))))
REPORTS ?=
REPORT_DIR := $(if $(REPORTS),--report-dir $(REPORTS))

# One BLAS thread a process: workers are processes, and two threads on one core slow small products many times over.
export OMP_NUM_THREADS ?= 1

# Tests start many processes; without bytecode each of them would compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: gates audit report test tests browser docs package lint types imports check clean

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "prereg needs Python 3.11 or newer: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[capture,receipts,report,dev]'
	@touch $@

# The first study on smollm2-135m, from the evidence in reports/ where it is complete, else from the model where that can
# be had, else on the embedded model. `make gates MODEL=...` chooses the model, `STUDY=gates/...` another study; `make gates
# REPORTS=elsewhere` starts from nothing. The exit code speaks of the harness: a refuted hypothesis is an answer, not a
# failure of the command; one that is void, since a control failed, is none.
gates: $(STAMP)
	@model="$(MODEL)"; study="$(or $(STUDY),gates/delta_stream)"; \
	if [ -z "$$model" ]; then \
	  model=smollm2-135m; \
	  $(BIN)/prereg verdicts $$study --model $$model --gate-exit=harness $(REPORT_DIR) >/dev/null 2>&1 \
	    || $(BIN)/prereg models --fetch $$model \
	    || { model=pythia-tiny; echo "smollm2-135m can't be had now: the study runs on the embedded pythia-tiny"; }; \
	fi; \
	$(BIN)/pytest $$study --model "$$model" --gate-exit=harness $(REPORT_DIR)

# 0 verified, 1 a violation, 2 something that can't be verified here (a shallow clone, say).
audit: $(STAMP)
	@for study in $(STUDIES); do $(BIN)/prereg audit $$study || exit $$?; done

# Figures, a page for a reviewer and a badge, beside the tables that they are made from.
report: $(STAMP)
	@for study in $(STUDIES); do $(BIN)/prereg report $$study || exit $$?; done

test tests: $(STAMP)
	$(BIN)/pytest -n 2

# The report page in a real browser, with axe-core's accessibility rules. No other target needs a browser: wants npm, and
# a `chromium` on the path (or PREREG_CHROMIUM=..., or `.venv/bin/playwright install chromium`).
browser: $(STAMP)
	$(BIN)/python -m pip install --quiet 'playwright==1.65.2'
	npm install --silent --no-save --prefix $(VENV)/axe axe-core@4.14.1
	PREREG_AXE=$(VENV)/axe/node_modules/axe-core/axe.min.js $(BIN)/pytest tests/browser

# The site, into build/site: guide, what the statistics mean, reference from docstrings. Fails on a broken link.
docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# sdist and wheel, into dist/, and the wheel in a clean environment of each Python from 3.11 to 3.13 that is here, without
# extras. Wants the package index: some minutes, 250 MB an environment, gone afterwards.
package: $(STAMP)
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python tests/packaging/clean_install.py dist/*.whl

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)
	$(BIN)/lint-imports

check: test lint types imports

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache

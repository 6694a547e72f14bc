# Every target needs python3, make and git, and nothing else: it makes .venv itself, and installs again
# only when pyproject.toml has changed.

PYTHON ?= python3
BIN    := .venv/bin
CASE   ?=
ARGS   ?=
SEED   ?= 1
COUNT  ?= 2000
ROWS   ?= 600

# Extras by stamp. `bench` runs on what a plain `pip install gramian` brings; `demo` reads tables and writes a report.
EXTRAS_core :=
EXTRAS_demo := [data,report]
EXTRAS_test := [test]
EXTRAS_lint := [dev,test]
EXTRAS_docs := [docs]
EXTRAS_gpu  := [test,gpu]
PINNED_gpu  := torch==2.13.0 triton

# Two test workers, each with a single-threaded BLAS and OpenMP: two pools spinning on the same cores are slower
# than one. Tests of peak memory measure a process of their own, so the workers do not disturb them.
ONE_BLAS_THREAD := OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 OMP_NUM_THREADS=1

.DEFAULT_GOAL := help
.PHONY: help demo test coverage test-gpu fuzz lint bench docs hooks clean
.NOTPARALLEL:

help:  ## say what there is to run
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 8

.venv/.stamp-%: pyproject.toml
	test -x $(BIN)/pip || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --disable-pip-version-check -e ".$(EXTRAS_$*)" $(PINNED_$*)
	@touch $@

demo: .venv/.stamp-demo  ## from two tables to models, predictions and reports, in a minute
	$(BIN)/gramian demo $(ARGS)

test: .venv/.stamp-test  ## all tests and doctests; ARGS="tests/gram -k dense" for some
ifeq ($(strip $(ARGS)),)
	$(ONE_BLAS_THREAD) $(BIN)/pytest -n 2
else
	$(BIN)/pytest $(ARGS)
endif

coverage: .venv/.stamp-test  ## the same with the lines that no test reaches, which takes twice as long
	$(ONE_BLAS_THREAD) $(BIN)/pytest -n 2 --cov --cov-report=term

test-gpu: .venv/.stamp-gpu  ## generated kernels and the engine on a GPU, or in Triton's interpreter and on torch's CPU
	$(ONE_BLAS_THREAD) $(BIN)/pytest -q tests/estimators/test_on_a_card.py  # alone: it fills the card
	$(ONE_BLAS_THREAD) $(BIN)/pytest -n 2 -q tests/gram/test_gpu.py tests/estimators/test_device.py

fuzz: .venv/.stamp-test  ## thousands of hard fits, their certificates computed again; SEED=7 COUNT=2000 ROWS=600
	FUZZ_SEED=$(SEED) FUZZ_COUNT=$(COUNT) FUZZ_ROWS=$(ROWS) $(ONE_BLAS_THREAD) $(BIN)/pytest -n 2 -q tests/test_fuzz_certificates.py

lint: .venv/.stamp-lint  ## style, types, import layers, docstrings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/_ext/public_docstrings.py

bench: .venv/.stamp-core  ## ours and the peers, interleaved; CASE=gram for one case
	$(BIN)/python -m benchmarks $(CASE) $(ARGS)

docs: .venv/.stamp-docs  ## the manual, in docs/_build/html
	$(BIN)/sphinx-build -q -W --keep-going docs docs/_build/html

hooks: .venv/.stamp-lint  ## lint what each commit changes, with pre-commit
	$(BIN)/pre-commit install

clean:  ## remove what the targets made, except .venv
	rm -rf build dist htmlcov .coverage coverage.xml docs/_build docs/api/generated docs/gallery
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests benchmarks docs -name __pycache__ -prune -exec rm -rf {} +

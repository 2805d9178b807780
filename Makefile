# Two commands on a fresh machine: `make demo` and `make test`. Both create .venv, pinned by
# constraints.txt, and use it again afterwards. PYTHON=python3.12 chooses another interpreter.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --require-virtualenv
INSTALL := $(PIP) install --progress-bar off --constraint constraints.txt

# One stamp for each thing that is installed. make installs it again when one of the files it was
# made from is newer.
PACKAGE := $(VENV)/.package
DEMO := $(VENV)/.demo
DEV := $(VENV)/.dev
MEDIA := $(VENV)/.media
BENCH := $(VENV)/.bench

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test check format wheel lock setup bench conformance bench-setup system-packages clean

help:  ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(DEMO)  ## run a real classifier on a real video, from file to report
	$(BIN)/python scripts/demo.py

test: system-packages setup  ## install what the tests need, then run every check
	@$(MAKE) --no-print-directory check

check: setup  ## format, lint, types, architecture, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest tests/test_architecture.py --quiet
	$(BIN)/pytest

format: $(DEV)  ## rewrite the code as `make check` wants it
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

wheel: $(DEV)  ## build the wheel into dist/
	$(BIN)/python -m build --wheel --no-isolation

lock:  ## write constraints.txt from what is installed
	$(BIN)/python scripts/lock.py

setup: $(DEV) $(MEDIA)  ## install the package, its tools and the clips of the tests

bench: bench-setup  ## time headrace beside other libraries (three hours), write the figures
	$(BIN)/python -m benchmarks.bench_sequential
	$(BIN)/python -m benchmarks.bench_startup
	$(BIN)/python -m benchmarks.bench_random_frames
	$(BIN)/python -m benchmarks.bench_random_clips
	$(BIN)/python -m benchmarks.bench_correlation
	$(BIN)/python -m benchmarks.bench_cameras
	$(BIN)/python -m benchmarks.bench_scaling
	$(BIN)/python -m benchmarks.bench_live
	$(BIN)/python -m benchmarks.bench_run
	$(BIN)/python -m benchmarks.bench_overhead
	$(BIN)/python -m benchmarks.bench_observe
	$(BIN)/python -m benchmarks.bench_predictions
	$(BIN)/python -m benchmarks.bench_extract
	$(BIN)/python -m benchmarks.bench_extract_memory
	$(BIN)/python -m benchmarks.bench_features
	$(BIN)/python -m benchmarks.bench_plan
	$(BIN)/python -m benchmarks.bench_remote
	$(BIN)/python -m benchmarks.soak
	$(BIN)/python -m benchmarks.pages

conformance: setup bench-setup  ## hold every kind of file against a plain decode (half an hour)
	$(BIN)/python -m benchmarks.conformance.draws
	$(BIN)/python -m benchmarks.conformance --synthetic build/conformance --json benchmarks/results/conformance.json

bench-setup: $(DEV) $(BENCH)  ## install the libraries the benchmarks compare with

system-packages:  ## install the system packages of the tests, or name them
	@scripts/system_packages.sh

clean:  ## remove what was built, cached or written, all but .venv
	rm -rf build dist demo_out demo_live .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "headrace needs Python 3.11 or newer, '$(PYTHON)' is $$($(PYTHON) --version 2>&1);" \
	    "name another one: make PYTHON=python3.12"; exit 1; } >&2
	$(PYTHON) -m venv $(VENV)

$(PACKAGE): $(VENV)/pyvenv.cfg pyproject.toml constraints.txt
	@echo "Installing headrace into $(VENV); with PyTorch this is some gigabytes and minutes."
	$(INSTALL) hatchling editables
	$(INSTALL) --no-build-isolation --editable .
	@touch $@

$(DEMO): $(PACKAGE) requirements-demo.txt
	$(INSTALL) --no-build-isolation --editable '.[web]'
	$(INSTALL) --no-deps --requirement requirements-demo.txt
	@touch $@

$(DEV): $(PACKAGE)
	$(INSTALL) --no-build-isolation --editable '.[dev,web,parquet,safetensors,redis,ray,nvtx,tensorboard,trainers]'
	@touch $@

$(MEDIA): $(PACKAGE) requirements-demo.txt requirements-media.txt
	$(INSTALL) --no-deps --requirement requirements-media.txt
	@touch $@

$(BENCH): $(PACKAGE)
	$(INSTALL) --no-build-isolation --editable '.[bench]'
	@touch $@

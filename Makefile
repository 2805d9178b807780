# Start with `make demo` or `make test`. Both create .venv, pinned by constraints.txt, and reuse it
# later. PYTHON=python3.12 selects another interpreter.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
# pip fails at a broken download despite --retries, so it is run again; its cache keeps finished files.
export PIP_DEFAULT_TIMEOUT ?= 60
export UV_HTTP_TIMEOUT ?= 60
PIP := scripts/three_times.sh $(BIN)/python -m pip --disable-pip-version-check --require-virtualenv
INSTALL := $(PIP) install --progress-bar off --constraint constraints.txt

# A stamp file per installation. make installs again if a file that the stamp depends on is newer.
PACKAGE := $(VENV)/.package
DEMO := $(VENV)/.demo
DEV := $(VENV)/.dev
MEDIA := $(VENV)/.media
BENCH := $(VENV)/.bench
FUZZ := $(VENV)/.fuzz
LOWEST := .venv-lowest
LEROBOT := .venv-lerobot
DOCS := .venv-docs
RELEASE := .venv-release
# lerobot 0.6 needs Python 3.12, from PATH or pyenv. Without it, lerobot 0.4 is installed.
PYTHON_312 := $(shell python3.12 -c 'import sys; print(sys.executable)' 2>/dev/null || ls -d $(HOME)/.pyenv/versions/3.12*/bin/python 2>/dev/null | tail -n 1)
PIP_OF = scripts/three_times.sh .venv-$(1)/bin/python -m pip --disable-pip-version-check install --quiet --progress-bar off

# Hundreds of test processes import the package, so its bytecode is cached in any case.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo docs docs-pictures test types architecture test-slow test-waiting test-versions test-lowest test-loaders test-lerobot installed check format release release-check lock setup bench conformance fuzz gpu-check gpu-rehearse bench-setup system-packages clean

help:  ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(DEMO)  ## run a real classifier on a real video, from file to report
	$(BIN)/python scripts/demo.py

test: system-packages setup  ## install what the tests need, then run every check
	@$(MAKE) --no-print-directory check

# Two processes with one OpenMP thread each: waiting OpenMP threads spin on the two cores.
check: setup  ## format, lint, types, architecture, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@$(MAKE) --no-print-directory --jobs 2 types architecture
	OMP_NUM_THREADS=1 $(BIN)/pytest -m "not slow" --numprocesses 2 --dist loadfile

types:
	$(BIN)/mypy

architecture:
	$(BIN)/pytest tests/test_architecture.py --quiet

# Tests of clusters, kills, streams and ranks mostly wait, so other versions are installed and the
# release is checked beside them. The rehearsal is one process after another, so tests run beside it.
test-slow: setup docs  ## run the slow tests, the tests on the lowest versions, and the GPU code on the CPU
	@$(MAKE) --no-print-directory --jobs 2 test-waiting installed
	@$(MAKE) --no-print-directory --jobs 2 test-versions gpu-rehearse

installed:
	@$(MAKE) --no-print-directory --jobs 1 $(LOWEST)/.done $(LEROBOT)/.done release-check

test-waiting:
	OMP_NUM_THREADS=1 $(BIN)/pytest -m slow --numprocesses 2 --dist loadfile

test-versions:
	@$(MAKE) --no-print-directory --jobs 1 test-lowest test-lerobot

# Without the tests of ranks: a process group of PyTorch 2.5 may hang if it ends right after a gather.
LOADER_TESTS := -m "not slow" --numprocesses 2 --dist loadfile tests/test_core_install.py \
  tests/planning tests/sampling tests/video tests/decode tests/loaders tests/report \
  --deselect tests/loaders/test_epochs.py::test_all_ranks_raise --ignore tests/loaders/trainers

test-lowest: $(LOWEST)/.done  ## run the tests of loaders and reports on the lowest versions
	OMP_NUM_THREADS=1 $(LOWEST)/bin/python -m pytest --quiet $(LOADER_TESTS) tests/bench/suite/test_page_browser.py

test-loaders: setup  ## run only the tests of loaders and reports, as on macOS and Windows
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --quiet $(LOADER_TESTS)

test-lerobot: $(LEROBOT)/.done  ## compare items of LeRobot datasets with those of lerobot
	OMP_NUM_THREADS=1 $(LEROBOT)/bin/python -m pytest --quiet --numprocesses 2 --dist loadfile tests/with_lerobot

format: $(DEV)  ## format the code and fix lint errors
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

release: $(RELEASE)/.done  ## build wheel, sdist, SBOM and SHA256SUMS into dist/
	$(RELEASE)/bin/python -m scripts.release

release-check: $(RELEASE)/.done  ## install wheel and sdist into empty environments and test them there
	$(RELEASE)/bin/python -m scripts.check_release

lock:  ## write constraints.txt from the installed versions
	$(BIN)/python scripts/lock.py

setup: $(DEV) $(MEDIA)  ## install the package, its tools and the test clips

bench: bench-setup  ## time headrace and other libraries, and write the results (three to four hours)
	$(BIN)/python -m benchmarks.media
	$(BIN)/python -m benchmarks.camera_media --num-frames 40
	$(BIN)/python -m benchmarks.camera_media --num-frames 120
	$(BIN)/python -m benchmarks.camera_media --num-frames 240
	$(BIN)/python -m benchmarks.bench_sequential
	$(BIN)/python -m benchmarks.bench_startup
	$(BIN)/python -m benchmarks.bench_random_frames
	$(BIN)/python -m benchmarks.bench_first_batch
	$(BIN)/python -m benchmarks.bench_random_clips
	$(BIN)/python -m benchmarks.bench_correlation
	$(BIN)/python -m benchmarks.bench_cameras
	$(BIN)/python -m benchmarks.bench_camera_windows
	$(BIN)/python -m benchmarks.bench_scaling
	$(BIN)/python -m benchmarks.bench_cores
	$(BIN)/python -m benchmarks.bench_live
	$(BIN)/python -m benchmarks.bench_run
	$(BIN)/python -m benchmarks.bench_overhead
	$(BIN)/python -m benchmarks.bench_observe
	$(BIN)/python -m benchmarks.bench_times
	$(BIN)/python -m benchmarks.bench_compare
	$(BIN)/python -m benchmarks.bench_predictions
	$(BIN)/python -m benchmarks.bench_planted
	$(BIN)/python -m benchmarks.bench_extract
	$(BIN)/python -m benchmarks.bench_extract_memory
	$(BIN)/python -m benchmarks.bench_features
	$(BIN)/python -m benchmarks.bench_proxy
	$(BIN)/python -m benchmarks.bench_plan
	$(BIN)/python -m benchmarks.bench_remote
	$(BIN)/python -m benchmarks.soak
	@$(MAKE) --no-print-directory $(LEROBOT)/.done
	$(LEROBOT)/bin/python -m benchmarks.bench_lerobot
	$(BIN)/python -m benchmarks.pages

# The pages are copied with their folders, so that links lead to the same files on the site.
docs: $(DOCS)/.done  ## build the site of the documentation into build/site
	rm -rf build/site build/site_source && mkdir -p build/site_source
	tar cf - --exclude __pycache__ *.md docs examples deploy benchmarks/README.md benchmarks/results | tar xf - -C build/site_source
	$(DOCS)/bin/zensical build --clean --strict

docs-pictures: $(DEMO)  ## draw the images of the docs from real runs (three minutes)
	PYTHONPATH=tests $(BIN)/python scripts/docs_pictures.py

conformance: setup bench-setup  ## compare every kind of file with a plain decode (half an hour)
	$(BIN)/python -m benchmarks.conformance.draws
	$(BIN)/python -m benchmarks.conformance --synthetic build/conformance --json benchmarks/results/conformance.json

fuzz: setup $(FUZZ)  ## fuzz the readers of files (FUZZ_SECONDS=60 for each, corpus in build/fuzz)
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -W ignore -m fuzz --seconds $(or $(FUZZ_SECONDS),60) --corpus build/fuzz $(FUZZ_TARGETS)

# Installs nothing, since a machine with a GPU may have no network.
gpu-check:  ## check and measure everything that needs an NVIDIA GPU (under 10 minutes)
	$(or $(wildcard $(BIN)/python),$(PYTHON)) scripts/gpu_check.py

gpu-rehearse: setup  ## run the steps of gpu-check on the CPU, with small settings
	$(BIN)/python scripts/gpu_check.py --rehearse --seconds 1800

bench-setup: $(DEV) $(BENCH)  ## install the libraries the benchmarks compare with

system-packages:  ## install the system packages of the tests, or name them
	@scripts/system_packages.sh

clean:  ## remove build outputs, caches and demo outputs, but not .venv*
	rm -rf build dist .cache demo_out demo_live .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -path './.venv*' -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "headrace needs Python 3.11 or newer, '$(PYTHON)' is $$($(PYTHON) --version 2>&1);" \
	    "select another: make PYTHON=python3.12"; exit 1; } >&2
	$(PYTHON) -m venv $(VENV)

$(PACKAGE): $(VENV)/pyvenv.cfg pyproject.toml constraints.txt
	@echo "Installing headrace into $(VENV); with PyTorch it takes some gigabytes and minutes."
	$(INSTALL) hatchling editables
	$(INSTALL) --no-build-isolation --editable '.[run]'
	@touch $@

PYTHONS := (3, 11)
$(LEROBOT)/.done: PYTHONS := (3, 11), (3, 12)
$(LEROBOT)/.done: PYTHON := $(or $(PYTHON_312),$(PYTHON))
$(LOWEST)/.done $(LEROBOT)/.done: .venv-%/.done: constraints-%.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] not in [$(PYTHONS)])' || { \
	  echo "constraints-$*.txt is for Python $(PYTHONS): make test-$* PYTHON=python3.11"; exit 1; } >&2
	@echo "Installing $< into .venv-$*: 3 GB of wheels, 5 to 8 GB on disk."
	$(PYTHON) -m venv --clear .venv-$*
	$(call PIP_OF,$*) --constraint constraints.txt hatchling editables
	$(call PIP_OF,$*) --no-deps --requirement constraints-$*.txt
	$(call PIP_OF,$*) --no-deps --requirement requirements-media.txt
	$(call PIP_OF,$*) --no-deps --no-build-isolation --editable .
	@touch $@

$(DOCS)/.done: requirements-docs.txt
	$(PYTHON) -m venv --clear $(DOCS)
	$(call PIP_OF,docs) --no-deps --requirement $<
	@touch $@

$(RELEASE)/.done: requirements-release.txt
	$(PYTHON) -m venv --clear $(RELEASE)
	$(call PIP_OF,release) --requirement $<
	@touch $@

$(DEMO): $(PACKAGE) requirements-demo.txt
	$(INSTALL) --no-build-isolation --editable '.[run,web]'
	$(INSTALL) --no-deps --requirement requirements-demo.txt
	@touch $@

$(DEV): $(PACKAGE)
	$(INSTALL) --no-build-isolation --editable '.[run,dev,web,parquet,safetensors,redis,ray,nvtx,tensorboard,torchcodec,trainers]'
	@touch $@

$(MEDIA): $(PACKAGE) requirements-demo.txt requirements-media.txt
	$(INSTALL) --no-deps --requirement requirements-media.txt
	@touch $@

$(FUZZ): $(PACKAGE) requirements-fuzz.txt
	$(INSTALL) --requirement requirements-fuzz.txt
	@touch $@

$(BENCH): $(PACKAGE)
	$(INSTALL) --no-build-isolation --editable '.[run,bench]'
	@touch $@

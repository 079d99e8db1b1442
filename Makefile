# Everything happens in .venv, made on first use. Only Python, git and make need to be on the machine; Node comes as a Python package.

PYTHON ?= python3
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
NPM := PATH="$(CURDIR)/$(BIN):$$PATH" npm --prefix extension
SOURCES := pyproject.toml hatch_build.py extension/package-lock.json extension/build.mjs $(shell find extension/src extension/jupyter-config -type f)

# `make test` leaves out tests marked `long`; with FULL=1 those marked `shorter`. WORKERS is pytest-xdist's number of processes: one more
# than cores, since a test often waits for a kernel or a page; with more, pages that are reloaded are put back too late.
FULL ?=
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')
MARKS := not torch and not $(if $(FULL),shorter,long)
BASE ?= HEAD
CHANGED = { git diff --name-only --diff-filter=d $(BASE); git ls-files --others --exclude-standard; }
# With a process for each core, threads of the matrix products only wait for each other: lessons take three times as long with them.
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# A test run starts hundreds of Python processes. Without cached bytecode each of them would compile the engine again.
unexport PYTHONDONTWRITEBYTECODE

.DELETE_ON_ERROR:
.PHONY: help lab site quick pytest-quick check-changed test check-view check-python pytest gpu gpu-tests gpu-samples gpu-bench lessons hub parity ecosystem fuzz conformance suite-there \
  bench build clean

help:
	@echo 'make lab     open JupyterLab on lesson 1         (ARGS="--no-browser --port 8890": further arguments of `workbench lab`)'
	@echo 'make quick   run most of the tests in a minute, and look at what has changed (BASE=main: since main)'
	@echo 'make test    run the tests, types and style      (ARGS="tests/test_cli.py": further arguments of pytest)'
	@echo 'make test FULL=1   with the long ones too: an older ipykernel, more random inputs, a minute of training in a browser'
	@echo 'make gpu     on an NVIDIA GPU, install what it needs, then: (CUDA=cuda13: with CUDA 13 instead of 12)'
	@echo '  make gpu-tests     run the tests of the GPU, and those of the engine with every tensor there'
	@echo "  make gpu-samples   run PyTorch's operator samples there, and kernels in compute-sanitizer"
	@echo '  make gpu-bench     measure models and ops beside PyTorch    (GPU_PYTHON=python3: another Python, for each of the three)'
	@echo 'make lessons   run the lessons as a whole, and look at what they reach'
	@echo 'make site    build the site in site/               (FAST=1: with the lessons in their short form)'
	@echo 'make hub     as root, set up the JupyterHub of docs/hub.md and test it'
	@echo 'make parity  install torch, run the tests that compare with it'
	@echo 'make ecosystem   install libraries that are written for torch, run programs of theirs on torch and on the engine'
	@echo 'make fuzz    compare random programs with torch for SECONDS=600'
	@echo "make conformance SUITE=path   run the array API consortium's tests from a checkout of theirs   (EXAMPLES=1000: more of each)"
	@echo 'make bench   measure the overhead of an op'
	@echo 'make build   make the wheel and the source distribution in dist/'
	@echo 'make clean   remove .venv and everything that was built'
	@echo 'PYTHON=python3.12 chooses the Python that .venv is made with (3.11 or newer).'

lab: $(VENV)/lessons.stamp
	$(BIN)/workbench lab $(ARGS)

# The three parts run side by side.
test: $(VENV)/test.stamp $(VENV)/ipykernel.stamp extension/node_modules/npm.stamp
	@$(MAKE) --no-print-directory -j 3 pytest check-view check-python

# Within a minute: tests not marked slow or long, and the types of what has changed since BASE.
quick: $(VENV)/test.stamp extension/node_modules/npm.stamp
	@$(MAKE) --no-print-directory -j 2 pytest-quick check-changed

pytest-quick:
	$(PYTEST) -m "not torch and not long and not slow" --ignore tests/parity --ignore tests/browser --durations 5 --durations-min 1 $(ARGS)

check-changed:
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --check .
	@files=$$($(CHANGED) | grep -E '^(engine|workbench)/.*\.py$$' | grep -v ^engine/ops/ || true); \
	  if [ -n "$$files" ]; then echo $(BIN)/pyright $$files; $(BIN)/pyright $$files; fi
	@if $(CHANGED) | grep -q ^extension/; then $(NPM) run check && $(NPM) test -- --changed $(BASE); fi

check-view:
	$(NPM) run check
	$(NPM) test

check-python:
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

# In a fresh clone one process compiles the tests, while types and style are checked; else each worker compiles all of them.
pytest:
	@test -d tests/__pycache__ || $(BIN)/python -m pytest --collect-only -qq -m "$(MARKS)" --ignore tests/parity > /dev/null || true
	HYPOTHESIS_PROFILE=$(if $(FULL),full,usual) $(PYTEST) -m "$(MARKS)" --ignore tests/parity $(ARGS)

# On a GPU. Each of the three takes less than five minutes on an H100 with 8 cores; after a failure the others still run.
CUDA ?= cuda12
GPU_PYTHON ?= $(BIN)/python
GPU_WORKERS ?= 8
GPU_PYTEST = $(GPU_PYTHON) -m pytest -q $(if $(GPU_WORKERS),-n $(GPU_WORKERS) --dist worksteal) --timeout 100
gpu: $(VENV)/parity.stamp $(VENV)/gpu-$(CUDA).stamp
	@$(MAKE) --no-print-directory --keep-going gpu-tests gpu-samples gpu-bench

gpu-tests:
	@failed=0; \
	$(GPU_PYTEST) -m gpu tests/cuda tests/engine/test_checkpoints.py || failed=1; \
	$(GPU_PYTEST) --device cuda -m "not torch and not long and not gpu" tests/engine $(ARGS) || failed=1; \
	exit $$failed

# compute-sanitizer slows kernels down; what it has not reached after SANITIZE seconds is left out. Without CuPy's pool, whose blocks lie
# side by side, it sees each access outside of an array.
SANITIZE ?= 100
gpu-samples:
	@failed=0; \
	$(GPU_PYTEST) -m torch tests/parity/test_gpu_samples.py $(ARGS) || failed=1; \
	if command -v compute-sanitizer; then \
	  timeout $(SANITIZE) compute-sanitizer --tool memcheck --error-exitcode 9 \
	    $(GPU_PYTHON) -m pytest -q -m gpu --unpooled tests/cuda/test_gpu.py; \
	  code=$$?; test $$code -eq 0 -o $$code -eq 124 || failed=1; \
	else echo 'compute-sanitizer is not installed: kernels are not checked with it'; fi; \
	exit $$failed

gpu-bench:
	$(GPU_PYTHON) benchmarks/gpu.py $(ARGS)

# The lessons as students run them, without what makes them shorter in `make test`.
lessons: $(VENV)/test.stamp
	$(PYTEST) --whole tests/lessons $(ARGS)

# Needs no network once the packages are there. Only lessons that have changed, or whose engine or workbench has, run again.
FAST ?=
site: $(VENV)/site.stamp
	$(BIN)/python docs/site/build.py site $(if $(FAST),--fast) $(ARGS)

# Each student gets a Unix account, which takes root, and a Python that every account can read.
hub: $(VENV)/test.stamp $(VENV)/hub.stamp $(VENV)/hub/node_modules
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest tests/hub -m hub $(ARGS)

parity: $(VENV)/parity.stamp
	$(BIN)/python -m pytest -m torch $(ARGS)

# -rP: what the programs printed, and their time beside PyTorch's. A lesson that is about PyTorch itself is among them.
ecosystem: $(VENV)/ecosystem.stamp
	$(BIN)/python -m pytest tests/ecosystem tests/lessons -m ecosystem -rP $(ARGS)

# Random programs on PyTorch and on the engine; ARGS="--help" says more.
SECONDS ?= 600
fuzz: $(VENV)/parity.stamp
	$(BIN)/python tests/parity/fuzz --seconds $(SECONDS) $(ARGS)

# The array API consortium's tests are no package: SUITE is a checkout of them. The second run is of those in xfails.txt that fail because
# operators promote as PyTorch's do: where every kind of number has one type, they pass.
SUITE ?=
EXAMPLES ?= 100
SUITED = ARRAY_API_TESTS_MODULE=engine.array_api HYPOTHESIS_STORAGE_DIRECTORY=$(CURDIR)/$(VENV)/hypothesis $(CURDIR)/$(BIN)/python -m pytest \
  -n $(WORKERS) -q -p no:cacheprovider -W ignore::UserWarning --disable-deadline --max-examples $(EXAMPLES) $(ARGS)
conformance: suite-there $(VENV)/conformance.stamp
	cd '$(SUITE)' && $(SUITED) --xfails-file=$(CURDIR)/tests/conformance/xfails.txt array_api_tests
	cd '$(SUITE)' && ARRAY_API_TESTS_SKIP_DTYPES=int8,int16,int32,uint8,uint16,uint32,float64,complex128 $(SUITED) \
	  -k "(__ or cross or outer or concat or stack or where) and not scalars" \
	  $(patsubst %,array_api_tests/test_%.py,operators_and_elementwise_functions linalg manipulation_functions searching_functions)

suite-there:
	@test -d '$(SUITE)/array_api_tests' -a -d '$(SUITE)/array-api/src' || { \
	  echo 'make conformance SUITE=path/to/array-api-tests: a checkout with its submodule, as this makes it:' >&2; \
	  echo '  git clone --recurse-submodules https://github.com/data-apis/array-api-tests' >&2; exit 1; }

bench: $(VENV)/lessons.stamp
	$(BIN)/python benchmarks/overhead.py $(ARGS)

build: $(VENV)/pyvenv.cfg
	$(BIN)/python -m pip install --quiet build
	$(BIN)/python -m build

clean:
	rm -rf $(VENV) dist site .site extension/node_modules extension/build workbench/jupyter/static
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo 'Python 3.11 or newer is needed; name one that you have: make PYTHON=python3.12 ...' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Installed in place, with the extra of the stamp's name. The JupyterLab extension is copied into .venv: hence again when its sources change.
# pip compiles in one process, and compileall in one for each core; packages may have files for another Python, which do not compile.
$(VENV)/%.stamp: $(VENV)/pyvenv.cfg $(SOURCES)
	$(BIN)/python -m pip install --no-compile --editable ".[$*]"
	$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	touch $@

# The tests' extra has CuPy for CUDA 12, in the same folder as that for CUDA 13.
$(VENV)/gpu-%.stamp: $(VENV)/parity.stamp
	$(if $(filter cuda12,$*),,$(BIN)/python -m pip uninstall --yes cupy-cuda12x)
	$(BIN)/python -m pip install --editable ".[$*]"
	touch $@

# An older ipykernel, beside the installed one: the tests start kernels of both lines.
$(VENV)/ipykernel.stamp: tests/ipykernels.py | $(VENV)/test.stamp
	version=$$(sed -n 's/^OLDER = "\(.*\)"$$/\1/p' $<) && \
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target "$(VENV)/ipykernel-$$version" "ipykernel==$$version"
	touch $@

# JupyterHub's proxy.
$(VENV)/hub/node_modules: | $(VENV)/test.stamp
	PATH="$(CURDIR)/$(BIN):$$PATH" npm install --prefix $(VENV)/hub configurable-http-proxy@5

extension/node_modules/npm.stamp: extension/package-lock.json | $(VENV)/test.stamp
	$(NPM) ci
	touch $@

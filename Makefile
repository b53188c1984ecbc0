# naslab: `make demo` builds all and shows the main job; `make test` runs the tests that any machine can.
# Other targets: build, test-lab, check, bench, truth, hostile, docs, site, sanitize, supply, release, clean.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One stamp per set-up step, so that a second run is quick.
STAMPS := $(VENV)/.stamps
RUST_SOURCES := Cargo.toml Cargo.lock $(shell find crates -name '*.rs' -o -name Cargo.toml)
# Only files whose hashes are in constraints/ are installed.
PINNED := $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r
# One line for each long step of the set-up; what its programs print is kept beside the stamps.
QUIETLY = tools/quietly $(STAMPS)/$(@F).log
# The engine and the Rust tests are built beside each other: each leaves a processor idle now and then.
MAKEFLAGS += --jobs=2
# cargo would look for make's own jobs, which its recipes do not hand on.
unexport MAKEFLAGS MFLAGS
# A machine may forbid bytecode or set its own default store: neither may reach naslab here.
unexport PYTHONDONTWRITEBYTECODE
unexport NASLAB_STORE

.PHONY: build demo test test-lab check bench truth hostile docs site sanitize supply release clean tools
.DEFAULT_GOAL := build

tools:
	@PYTHON="$(PYTHON)" tools/need-tools

$(STAMPS)/venv: constraints/run.txt | tools
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(QUIETLY) "1. getting the Python packages" $(PINNED) constraints/run.txt
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/build: $(STAMPS)/venv $(RUST_SOURCES) pyproject.toml
	@PIP_NO_INDEX=1 VIRTUAL_ENV="$(CURDIR)/$(VENV)" PATH="$(CURDIR)/$(BIN):$$PATH" \
		$(QUIETLY) "2. building naslab (a few minutes the first time)" $(BIN)/maturin develop --release
	@$(BIN)/python -m compileall -q python $(VENV)/lib >/dev/null || true
	@touch $@

$(STAMPS)/dev: $(STAMPS)/build constraints/dev.txt
	@$(QUIETLY) "getting the packages of the tests" $(PINNED) constraints/dev.txt
	@$(BIN)/python -m compileall -q $(VENV)/lib >/dev/null || true
	@touch $@

$(STAMPS)/rust-tests: $(RUST_SOURCES) | tools
	@$(QUIETLY) "building the Rust tests (a few minutes the first time)" cargo test --workspace --quiet --no-run
	@mkdir -p $(STAMPS) && touch $@

build: $(STAMPS)/build

demo: build
	@tools/demo

test: $(STAMPS)/dev $(STAMPS)/rust-tests
	@tools/run-tests

# What needs root, servers, browsers, the machine to itself or minutes. PART="hostile truth" takes parts: servers,
# packages and interop, too; packages and interop run only where they are named.
test-lab: $(STAMPS)/dev
	@tools/system-packages test
	@$(if $(findstring packages,$(PART)),tools/system-packages packages)
	@$(if $(findstring interop,$(PART)),tools/system-packages interop)
	@tools/run-tests lab $(PART)

check: $(STAMPS)/dev
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet
	$(BIN)/ruff format --check python tests benches tools
	$(BIN)/ruff check python tests benches tools
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/make-docs --check
	$(BIN)/python tools/late-imports --check
	$(BIN)/python tools/constraints --check

docs: build
	$(BIN)/python tools/make-docs

# docs/ as a web site with search, in target/site.
site: $(STAMPS)/dev
	@$(BIN)/python tools/make-site

bench: $(STAMPS)/dev
	@tools/system-packages bench
	@$(BIN)/python benches/bench.py $(BENCH)

# SEED=7 draws other systems; TRUTH="--only comparison" takes a part: see tools/truth --help.
truth: $(STAMPS)/dev
	@SEED="$(SEED)" tools/truth $(TRUTH)

# MINUTES=480 SEED=7: random attacks for a night.
hostile: $(STAMPS)/dev
	@tools/system-packages test
	@$(BIN)/python tools/hostile $(or $(MINUTES),10) $(SEED)

# What naslab is made of: pinned versions, licences, and advisories where ADVISORIES names copies of their databases.
supply: $(STAMPS)/dev
	$(BIN)/python tools/constraints --check
	$(BIN)/python tools/check-licences $(foreach folder,$(ADVISORIES),--advisories $(folder))

# All packages in target/dist, made twice and compared, tested, and listed in a table: about an hour.
# RELEASE=--once leaves out the second build, RELEASE=--draft takes files that are not committed, too.
release: $(STAMPS)/dev
	@tools/system-packages packages
	@$(BIN)/python tools/release $(RELEASE)

# The Rust tests with memory errors seen; CRATES="naslab-core" takes a part.
sanitize: | tools
	@tools/sanitize $(CRATES)

clean:
	rm -rf $(VENV) target demo

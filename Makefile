# Each target does its own set-up: Rust, Python >= 3.11 and a C compiler are all that is needed.
PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
# `make bench` compares with PyTorch where this Python has it.
PYTHON_WITH_TORCH ?= $(PY)
RUST_SOURCES := $(shell find crates python/binding ops -name '*.rs' -o -name '*.toml' | grep -v target)
PY_SOURCES   := $(shell find python/corten -name '*.py') pyproject.toml

.PHONY: demo test test-python bench lint docs wheel clean

## Trains the handwritten-digits network in Rust and in Python.
demo: $(VENV)/installed
	cargo run --release --package corten --example digits_cnn
	PYTHONPATH=python $(PY) examples/python/digits_cnn.py

## Runs the Python tests on a release build; `cargo test` runs the Rust ones.
test: test-python

test-python: $(VENV)/installed
	PYTHONPATH=python $(PY) -m unittest discover --start-directory tests/python

## Times Corten beside PyTorch, and its kernels beside naive ones.
bench: $(VENV)/installed
	PYTHONPATH=python $(PYTHON_WITH_TORCH) benches/suite.py
	cargo bench --package corten-lab

## Formatting.
lint:
	cargo fmt --all --check

docs:
	RUSTDOCFLAGS="--deny warnings" cargo doc --workspace --no-deps

## An abi3 wheel in dist/.
wheel: $(VENV)/bin/python
	$(PY) -m pip --disable-pip-version-check wheel --quiet --no-deps --wheel-dir dist .

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(VENV)/bin/python $(RUST_SOURCES) $(PY_SOURCES)
	$(PY) -m pip --disable-pip-version-check install --quiet numpy
	cargo build --release --package corten-python
	cp target/release/lib_C.so python/corten/_C.abi3.so
	touch $@

clean:
	rm -rf target dist $(VENV) out

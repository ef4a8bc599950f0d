# Each target does its own set-up: Rust, Python >= 3.11 and a C compiler are all that is needed.
PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
# `make bench` compares with PyTorch where this Python has it.
PYTHON_WITH_TORCH ?= $(PY)

# $(call packaged,NAME,BUILD): the package of a build that is not for users, in target/NAME/python, so that it
# does not take the place of a release build; BUILD is the library's folder in target, NAME unless given.
packaged = rm -rf target/$(1)/python && mkdir -p target/$(1)/python && cp -r python/corten target/$(1)/python/ && \
	rm -f target/$(1)/python/corten/_C.abi3.so && \
	cp target/$(or $(2),$(1))/lib_C.so target/$(1)/python/corten/_C.abi3.so

.PHONY: gloo c-library c-test stable-test demo test test-full test-rust test-small musl wasm test-loom test-python test-general test-cuda test-cuda-sim bench-cuda kernel-pack FORCE test-asan fuzz bench bench-rust bench-ops bench-dtypes roofline accuracy ecosystem instructions instructions-record order lint docs small stubs wheel clean

## Trains the handwritten-digits network in Rust and in Python.
demo: $(VENV)/numpy
	cargo build --release --package corten --package corten-python --lib --example digits_cnn
	target/release/examples/digits_cnn
	rm -f python/corten/_C.abi3.so && cp target/release/lib_C.so python/corten/_C.abi3.so
	PYTHONPATH=python $(PY) examples/python/digits_cnn.py

## Runs everything: the Rust tests, the interleavings of the reference count and the access word,
## the Python tests on a build with debug assertions, and the examples in C.
test: test-rust test-loom test-python c-test

## As `make test` and `make test-general`, with every derivative in every arrangement of memory, every sample of
## operators both with fast paths and without, threads for a minute, and the instructions of small calls.
test-full: export CORTEN_TEST_FULL = 1
test-full: test test-general test-cuda-sim test-small instructions

# What processes compute together with: an MPI from pip, gloo from the system's packages. Where one of them cannot be
# had, its tests say that they did not run.
$(VENV)/processes: $(VENV)/bin/python
	-$(PY) -m pip --disable-pip-version-check install --quiet mpich && touch $@
	-if [ ! -e /usr/include/gloo/allreduce.h ] && [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
		apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install g++ libgloo-dev > /dev/null; fi

# Tools that need the generator are tested apart, so that the library is built once. Features depend on the packages
# that are named: other builds name the same ones, or crates would be compiled again.
MEMBERS := --workspace --exclude corten-codegen --exclude xtask
debug-library = cargo build $(MEMBERS) --lib --example use_operators --example corten_shared
test-rust: $(VENV)/processes
	CORTEN_TEST_MPIEXEC="$$(ls $(CURDIR)/$(VENV)/bin/mpiexec 2> /dev/null)" cargo test --quiet $(MEMBERS)
	cargo test --quiet --package corten-codegen --package xtask --features corten-codegen/generate

# The library is built again for these: without threads and mapped memory, with conversions that are off by default.
SMALL := --package corten --no-default-features --features ndarray,serde --target-dir target/features
test-small:
	cargo test --quiet $(SMALL) --test small --test with_ndarray --test with_serde

## The example `in_browser` in WebAssembly, which Node.js runs. `rustup target add wasm32-unknown-unknown` has the
## standard library for it.
WASM := wasm32-unknown-unknown
wasm:
	cargo build --package corten --no-default-features --example in_browser --target $(WASM) --target-dir target/wasm
	node examples/wasm/run.mjs target/wasm/$(WASM)/debug/examples/in_browser.wasm

test-loom:
	RUSTFLAGS="--cfg loom" cargo test --quiet --package corten-core --test loom --target-dir target/loom

test-python: $(VENV)/numpy $(VENV)/mypy $(VENV)/processes
	$(debug-library)
	$(call packaged,debug)
	PYTHONPATH=target/debug/python $(PY) tests/run.py

## The C library in target/c/lib, shared and static, and its headers in target/c/include.
c-library:
	cargo rustc --release --package corten-c --crate-type cdylib -- -Clink-arg=-Wl,-soname,libcorten.so.1
	rm -rf target/c && mkdir -p target/c/lib && cp target/release/libcorten_c.so target/c/lib/libcorten.so.1
	ln -s libcorten.so.1 target/c/lib/libcorten.so
	cargo rustc --release --package corten-c --crate-type staticlib
	cp target/release/libcorten_c.a target/c/lib/libcorten.a
	cargo xtask header target/c/include

## The examples in C, operators written in C that Rust and Python call, and bindings for Nim.
c-test: $(VENV)/numpy
	$(debug-library)
	$(call packaged,debug)
	rm -rf target/c-test && mkdir -p target/c-test/lib
	cp target/debug/examples/libcorten_shared.so target/c-test/lib/libcorten.so
	cargo xtask header target/c-test/include
	PYTHONPATH=target/debug/python $(PY) examples/c/run.py target/c-test target/debug/examples/use_operators

## An extension built with the headers of PyTorch's stable ABI, in PyTorch and in Corten. PYTHON_WITH_TORCH has PyTorch;
## TORCHVISION_LIBRARY may name torchvision's _C_stable.so, whose kernels are compared with Corten's.
stable-test:
	PYTHONPATH=python $(PYTHON_WITH_TORCH) examples/c/stable/compare.py target/stable-test

## The library of the back end gloo, target/gloo/libcorten_gloo.so, from g++ and the gloo in the prefix GLOO
## (docs/distributed.md says how wheels get theirs). Where both are installed, programs compile it by themselves.
GLOO ?= /usr
gloo:
	mkdir -p target/gloo
	$(CXX) -std=c++17 -O2 -fPIC -shared -fvisibility=hidden -I$(GLOO)/include crates/corten-dist/gloo/shim.cpp \
		-L$(GLOO)/lib -lgloo -pthread -o target/gloo/libcorten_gloo.so

# NVRTC compiles without a GPU. It is 110 MB: where it cannot be had, the check says that it did not run.
$(VENV)/nvrtc: $(VENV)/bin/python
	-$(VENV)/bin/pip install --quiet "nvidia-cuda-nvrtc==13.0.*" && touch $@

## The tests of the CUDA back end on an emulated driver, for machines without a GPU; they are part of `make test`.
## Then NVRTC compiles the kernels that they used for every architecture.
test-cuda-sim: $(VENV)/numpy $(VENV)/nvrtc
	$(debug-library)
	$(call packaged,debug)
	PYTHONPATH=target/debug/python $(PY) tests/run.py $(notdir $(wildcard tests/cuda/test_*.py))
	$(PY) tests/cuda/compile_all.py

## Packs of compiled kernels in target/kernels, one for each generation of devices: for machines that have no NVRTC,
## which find them through CORTEN_KERNEL_PACK, or in the folder kernels beside the extension module.
kernel-pack: $(VENV)/numpy $(VENV)/nvrtc
	$(debug-library)
	$(call packaged,debug)
	PYTHONPATH=target/debug/python $(PY) tests/cuda/kernel_pack.py target/kernels

# What a machine with a GPU needs, which has no Rust: the package in target/gpu/python.
target/gpu/python: FORCE
	cargo build --release --package corten-python
	$(call packaged,gpu,release)

## The tests of the CUDA back end on the machine's GPU.
test-cuda: $(if $(PACKAGE),,target/gpu/python)
	$(PYTHON) tests/cuda/on_gpu.py $(or $(PACKAGE),target/gpu/python)

## Times CUDA beside PyTorch on the machine's GPU.
bench-cuda: $(if $(PACKAGE),,target/gpu/python)
	$(PYTHON) benches/cuda.py $(or $(PACKAGE),target/gpu/python)

FORCE:

# What these test does not run through fast paths, or calls only what the others do; test_general_paths calls every
# operator both ways in the other run.
GENERAL_WITHOUT := test_distributed*.py test_dtensor*.py test_fsdp*.py test_pipelining*.py test_data*.py \
	test_multiprocessing.py test_segments.py test_onnx.py test_typing.py test_documents.py test_examples.py \
	test_names_of_packages.py test_hostile_files.py test_image_files.py test_commands.py test_torchrun.py \
	test_compile_logs.py test_compiled_operators.py test_large.py test_general_paths.py test_stable_abi.py \
	test_forward_oracle.py test_kernel_boundaries.py test_vision_operators.py test_quanti*.py test_reference_cycles.py \
	test_array_api.py test_fake_operators.py test_winograd.py test_lobpcg*.py test_loader*.py test_weight_quanti*.py \
	test_byte_products.py test_generate.py test_language_operators.py test_quasirandom.py test_shared_memory*.py \
	test_unallocatable_sizes.py test_export*.py test_schedules_resumed.py

## The Python tests with fast paths switched off, and programs without threads and mapped memory. Kernels of GPUs have
## no such switch.
test-general: $(VENV)/numpy $(VENV)/mypy
	$(debug-library)
	$(call packaged,debug)
	CORTEN_GENERAL_PATHS=1 CORTEN_TEST_FOLDERS="python semantics regression" \
		CORTEN_TEST_WITHOUT="$(if $(CORTEN_TEST_FULL),,$(GENERAL_WITHOUT))" PYTHONPATH=target/debug/python \
		$(PY) tests/run.py $(TESTS)

## Times Corten beside PyTorch, and its kernels beside their slow twins.
bench: $(VENV)/bin/python
	cargo build --release --package corten-python --package corten-lab
	rm -f python/corten/_C.abi3.so && cp target/release/lib_C.so python/corten/_C.abi3.so
	PYTHONPATH=python $(PYTHON_WITH_TORCH) benches/suite.py
	PYTHONPATH=python $(PYTHON_WITH_TORCH) benches/autograd.py
	cargo bench --package corten-python --package corten-lab --bench twins

## Times Corten in Rust beside candle and burn, which are built for this processor, too. ROWS=gpt times the rows that
## begin so, ROUNDS=3 takes fewer turns.
bench-rust:
	RUSTFLAGS="-C target-cpu=native" cargo build --release --manifest-path benches/rust/Cargo.toml --target-dir target/bench-rust
	target/bench-rust/release/corten-beside $(or $(ROUNDS),5) 1 $(ROWS)

## Writes docs/roofline.md: how near the kernels come to what the machine can do.
roofline: $(VENV)/bin/python
	cargo build --release --package corten-python
	rm -f python/corten/_C.abi3.so && cp target/release/lib_C.so python/corten/_C.abi3.so
	PYTHONPATH=python $(PY) benches/roofline.py

## Writes docs/ecosystem.md from RESULTS, what PROGRAMS printed with Corten and with PyTorch; ECO_PYTHON has the packages.
ecosystem:
	$(or $(ECO_PYTHON),$(PY)) benches/ecosystem.py --results $(RESULTS) --programs $(PROGRAMS) $(if $(IMPORTS),--imports $(IMPORTS))

## Writes docs/accuracy.md: how far the vector math is from the exact results.
accuracy: $(VENV)/mpmath
	cargo build --release --package corten-python
	rm -f python/corten/_C.abi3.so && cp target/release/lib_C.so python/corten/_C.abi3.so
	PYTHONPATH=python $(PY) benches/accuracy.py

## Times every operator of the registry beside PyTorch at one large size, and lists the slowest.
bench-ops: $(VENV)/bin/python
	cargo build --release --package corten-python
	rm -f python/corten/_C.abi3.so && cp target/release/lib_C.so python/corten/_C.abi3.so
	PYTHONPATH=python $(PYTHON_WITH_TORCH) benches/operators.py

## Times operators on every dtype beside the memory roof and PyTorch, and lists the slow pairs.
bench-dtypes: $(VENV)/bin/python
	cargo build --release --package corten-python
	rm -f python/corten/_C.abi3.so && cp target/release/lib_C.so python/corten/_C.abi3.so
	PYTHONPATH=python $(PYTHON_WITH_TORCH) benches/dtypes.py

## The Python tests on a build with the address sanitizer, which sees where every block ends. It takes
## a C compiler with its own runtime of the sanitizer, and some memory: TESTS=test_views.py runs one file.
ASAN = LD_PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libstdc++.so)" \
	ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:abort_on_error=0:handle_segv=1
test-asan: $(VENV)/numpy
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address --cfg corten_sanitize" cargo build \
	    --package corten-python --target x86_64-unknown-linux-gnu --target-dir target/asan
	$(call packaged,asan,asan/x86_64-unknown-linux-gnu/debug)
	$(ASAN) PYTHONPATH=target/asan/python $(PY) tests/run.py $(TESTS)

## Fuzzes a reader of foreign data for a minute: make fuzz TARGET=torch (npy, gguf, pickle, safetensors, tensorboard, schema, indexing).
## fuzz/make_seeds.py makes inputs to begin with from the files of the tests; RUNS=1000000 ends it after so many.
TARGET  ?= safetensors
SECONDS ?= 60
RUNS    ?= -1
FUZZED  := target/fuzz/x86_64-unknown-linux-gnu/debug
fuzz:
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address --cfg fuzzing --cfg corten_sanitize \
	    -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
	    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
	    -Cllvm-args=-sanitizer-coverage-trace-compares" cargo build --manifest-path fuzz/Cargo.toml \
	    --target x86_64-unknown-linux-gnu --target-dir target/fuzz --bin $(TARGET)
	mkdir -p target/fuzz/corpus/$(TARGET) target/fuzz/found/$(TARGET) fuzz/seeds/$(TARGET)
	$(PYTHON) fuzz/make_seeds.py target/fuzz/corpus
	ASAN_OPTIONS=detect_leaks=0 $(FUZZED)/$(TARGET) -max_total_time=$(SECONDS) -runs=$(RUNS) -timeout=10 \
	    -rss_limit_mb=1024 -artifact_prefix=target/fuzz/ $(wildcard fuzz/dictionaries/$(TARGET).dict:%=-dict=%) \
	    target/fuzz/found/$(TARGET) target/fuzz/corpus/$(TARGET) fuzz/seeds/$(TARGET)

## Formatting, lints, and the rules of docs/STYLE.md that a program can check.
lint:
	cargo fmt --all --check
	cargo clippy --quiet --workspace --exclude corten-codegen --exclude xtask --all-targets -- --deny warnings
	cargo clippy --quiet --package corten-codegen --package xtask --features corten-codegen/generate --all-targets -- --deny warnings
	cargo xtask tidy

## Counts the instructions of small calls: 5 % more than on record is an error. Needs valgrind.
instructions: counted
	$(PY) benches/instructions.py

## Puts these counts on record.
instructions-record: counted
	$(PY) benches/instructions.py --record

## Lays the functions of small calls side by side: writes python/binding/order.ld. Needs valgrind.
order: $(VENV)/bin/python
	$(PY) benches/order.py

# Without what takes long to compile and small calls do not run, loops for AVX2 and AVX-512 among it.
.PHONY: counted
counted: $(VENV)/bin/python
	cargo build --release --no-default-features --package corten-python --package corten-lab
	$(call packaged,counted,release)

## The Rust documentation in target/doc, and in out/docs a page per operator and per module.
docs: $(VENV)/numpy
	RUSTDOCFLAGS="--deny warnings" cargo doc --workspace --no-deps
	$(debug-library)
	$(call packaged,debug)
	PYTHONPATH=target/debug/python $(PY) python/tools/make_docs.py out/docs

## The digits trainer as one static file, as small as it gets.
small:
	cargo run --release --package corten --example digits_cnn -- \
	    --epochs 1 --out target/small --operators target/small/operators
	CORTEN_OPERATORS=$(CURDIR)/target/small/operators \
	RUSTFLAGS="-C target-feature=+crt-static -C relocation-model=static -C force-unwind-tables=no" \
	cargo build --profile small --target x86_64-unknown-linux-gnu --package corten \
	    --example digits_cnn --no-default-features --features avx2,mmap,threads

## Type stubs beside the modules, from the registry of a build.
stubs: $(VENV)/numpy
	cargo build --release --package corten-python
	rm -f python/corten/_C.abi3.so && cp target/release/lib_C.so python/corten/_C.abi3.so
	PYTHONPATH=python $(PY) python/tools/make_stubs.py

## An abi3 wheel in dist/, with type stubs.
wheel: stubs
	$(PY) -m pip --disable-pip-version-check wheel --quiet --no-deps --wheel-dir dist .

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/numpy $(VENV)/mypy $(VENV)/mpmath: $(VENV)/bin/python
	$(PY) -m pip --disable-pip-version-check install --quiet $(notdir $@)
	touch $@

clean:
	rm -rf target dist $(VENV) out

# `make demo` and `make test` are all that a new machine needs: Rust and a C compiler for the first,
# Python 3.11 or newer in addition for the second.

# Set to nothing while changing dependencies: make check CARGO_FLAGS=
CARGO_FLAGS ?= --locked
export CARGO_FLAGS

PORT ?= 3000
SECONDS ?= 600
SEED ?= 1
TARGET := $(or $(CARGO_TARGET_DIR),target)

.PHONY: help demo serve test test-python test-clients wheel dist install-check fuzz bench compare sizing grafana overload soak schemathesis first-request adversary parity lint check fmt cuda-check cuda-simulated cuda-mutants gpu-check docker-check cpu cuda

help:
	@echo 'make demo    build, start a server on the built-in model, show what it does, stop it'
	@echo 'make serve   build and serve the built-in model on port $(PORT) (PORT=...)'
	@echo 'make test    all tests, the end-to-end ones included'
	@echo 'make test-python   the tests of the Python package, a part of test (WHEEL=FILE for the package in a wheel)'
	@echo 'make test-clients   real clients, examples, /docs in Chromium, deployment files; a part of test, and its large tests'
	@echo 'make fuzz    fuzzes every target with coverage feedback for a minute (FUZZ="TARGET SECONDS" for one)'
	@echo 'make bench   benchmarks: tables, JSON and SVG in target/bench'
	@echo 'make compare       against PyTorch, ONNX Runtime, OpenVINO and fastembed on this CPU, in alternating runs; 3 GB, half an hour'
	@echo 'make sizing        the sizing tables of docs/operations.md: five models on one and two cores, memory; on an idle machine'
	@echo 'make grafana       the picture of the Grafana dashboard, from traffic on a server of its own; needs Prometheus'
	@echo 'make overload      ten times as many clients as the server takes: throughput, latency, memory; 3 minutes'
	@echo 'make soak          30 minutes of mixed traffic, 10 of them warm-up: whether memory, descriptors or threads grow'
	@echo 'make schemathesis  thousands of generated requests against the OpenAPI description, three kinds of models'
	@echo 'make first-request ten starts: the first request against the following ones; 3 minutes'
	@echo 'make adversary     attacks of every shape on every route, floods, products, model folders, hubs: SECONDS=600 SEED=1'
	@echo 'make parity        random checkpoints of all families against transformers and sentence-transformers: SECONDS=600 SEED=1 (REPLAY=FOLDER)'
	@echo 'make check   formatting, clippy and all tests: what must pass before a change is proposed'
	@echo 'make cuda-check    kernels in emulation and compiled for all GPUs, the workspace with the feature cuda; needs no GPU'
	@echo 'make cuda-simulated   the tests and servers of the CUDA code on a simulated device; a part of cuda-check'
	@echo 'make cuda-mutants     faults injected into the CUDA code, which those tests must notice (MUTANTS="NAME ..." for some)'
	@echo 'make gpu-check     packs checks and timings for a machine with a GPU (benches/gpu): target/gpu-check.tar.xz'
	@echo 'make wheel         the Python wheel of a release, against an old glibc: target/dist'
	@echo 'make dist          all release files: tarball, wheel, image, checksums, bill of materials, licences: target/dist'
	@echo 'make install-check the lines of docs/install.md with those files in bare Debian roots'
	@echo 'make docker-check  builds the cpu image (make docker-check cuda: the cuda image) without a daemon, runs it and asks it'

demo:
	cargo build $(CARGO_FLAGS) --release -p prefold -p prefold-demo
	$(TARGET)/release/prefold-demo

serve:
	cargo build $(CARGO_FLAGS) --release -p prefold
	$(TARGET)/release/prefold --port $(PORT)

test:
	scripts/test.sh

test-python:
	scripts/test-python.sh

wheel:
	scripts/wheel.sh

dist:
	scripts/dist.sh

install-check:
	scripts/install-check.sh

test-clients:
	scripts/test-clients.sh

fuzz:
	scripts/fuzz.sh $(FUZZ)

bench:
	scripts/bench.sh

COMPARE ?= minilm queries bge-base reranker rerank encoders windows ndcg mixed start

compare:
	cargo build $(CARGO_FLAGS) --release -p prefold -p prefold-benches
	for table in $(COMPARE); do python3 benches/compare/compare.py $$table || exit 1; done

sizing:
	cargo build $(CARGO_FLAGS) --release -p prefold -p prefold-benches
	UPDATE_DOCS=1 python3 benches/compare/compare.py sizing

grafana:
	cargo build $(CARGO_FLAGS) --release -p prefold
	python3 -m venv $(TARGET)/grafana
	$(TARGET)/grafana/bin/pip install -q matplotlib==3.10.9
	$(TARGET)/grafana/bin/python docs/grafana/render.py --prefold $(TARGET)/release/prefold

# Long forms of what the end-to-end tests do for a minute. Figures go to target/reliability.
overload soak schemathesis first-request:
	scripts/reliability.sh $@

adversary:
	scripts/reliability.sh $@ --seconds $(SECONDS) --seed $(SEED)

parity:
	scripts/parity.sh $(if $(REPLAY),--replay $(REPLAY),--seconds $(SECONDS) --seed $(SEED))

lint:
	cargo fmt --all --check
	cargo clippy $(CARGO_FLAGS) --workspace --all-targets -- -D warnings

check: lint test

cuda-check:
	scripts/cuda-check.sh

cuda-simulated:
	scripts/cuda-simulated.sh

MUTANTS ?=

cuda-mutants:
	scripts/cuda-mutants.sh $(MUTANTS)

gpu-check:
	benches/gpu/pack.sh

# `make docker-check` checks the image `cpu`; `make docker-check cuda` the image `cuda`.
docker-check:
	scripts/docker-check.sh $(or $(filter cpu cuda,$(MAKECMDGOALS)),cpu)

cpu cuda:
	@:

fmt:
	cargo fmt --all

#!/usr/bin/env bash
# Checks the GPU code on a machine without a GPU: runs the kernels in emulation, compiles them for every supported GPU, links and
# runs their tests on the simulated device, then checks the workspace, builds its programs with the feature `cuda` and warnings
# denied, and lets the server answer on the simulated device.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo_flags=(${CARGO_FLAGS---locked})

source scripts/stages.sh

fetch_toolkit() {
    toolchain=$(scripts/cuda-toolchain.sh)
    eval "$toolchain"
}

stage "CUDA kernels in emulation" scripts/cuda-emulate.sh
stage "CUDA toolkit" fetch_toolkit
stage "simulated device" scripts/cuda-simulate.sh
SIMULATED_DEVICE=$(scripts/cuda-simulate.sh)
export SIMULATED_DEVICE LD_LIBRARY_PATH=$SIMULATED_DEVICE:${LD_LIBRARY_PATH:-}:$CUDA_HOME/lib64 REQUIRE_CUDA=1
# Fails if a kernel does not compile for a target of kernels/build.rs.
# Left out: attention, which takes minutes there and is checked by the emulation, and what needs more memory than there is.
stage "CUDA kernels and their tests" cargo test "${cargo_flags[@]}" -p prefold-kernels --features cuda --lib --test cuda -- \
    --skip attention --skip 2_to_the_31
# Candle's own kernels, most of which prefold never calls, take eight minutes with optimisation; none of them runs here.
export NVCC_APPEND_FLAGS="-Xcicc -O1 -Xptxas -O0 -Xcompiler -O0" CUDAFORGE_THREADS=${CUDAFORGE_THREADS:-$(nproc)}
stage "clippy with the feature cuda" cargo clippy "${cargo_flags[@]}" --workspace --all-targets --features cuda -- -D warnings
stage "programs with the feature cuda" cargo build "${cargo_flags[@]}" --workspace --bins --features cuda \
    --config profile.dev.opt-level=0 --config profile.dev.package.candle-core.opt-level=0
"${CARGO_TARGET_DIR:-target}/debug/prefold" --version
scripts/python-env.sh
stage "the server on the simulated device" .venv/bin/python -m pytest -q tests/e2e/test_simulated_device.py

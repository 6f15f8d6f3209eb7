#!/usr/bin/env bash
# Runs the CUDA code on the simulated device (kernels/cuda/simulated): the tests of the kernels and of whole models, and a server with the
# feature `cuda`, unchanged, under reference values, faults, load and a minute of traffic. Needs a C++ compiler, no GPU.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo_flags=(${CARGO_FLAGS---locked})
# Host code is compiled fast, since the emulated kernels take most of the time; candle's own kernels, most of which prefold never
# calls, take eight minutes with optimisation, and none of them runs here. The CPU's kernels keep some: without any, each of their inlined
# intrinsics has a place of its own on the stack, which attention overflows (1.4 MB in one frame).
unoptimised=(--config profile.dev.opt-level=0 --config profile.dev.package.candle-core.opt-level=0
    --config profile.dev.package.prefold-kernels.opt-level=1)

source scripts/stages.sh

fetch_toolkit() {
    toolchain=$(scripts/cuda-toolchain.sh)
    eval "$toolchain"
}

# NVIDIA's libraries are opened on demand, so that one program serves with and without them.
names_none_of_the_libraries() {
    local program
    for program in "$@"; do
        if readelf -d "$program" | grep -E 'NEEDED.*\[lib(cu|nv)'; then
            echo "$program needs a library of NVIDIA's to start: kernels/src/cuda/shims.rs lacks one of"
            nm -D --undefined-only "$program" | grep -E ' (cu[A-Z]|cuda|cublas|curand|nvrtc|__cuda)' || true
            return 1
        fi
        # Exported entry points of the program would replace the libraries' own.
        if nm -D --defined-only "$program" | grep -E ' (cu[A-Z]|cuda|cublas|curand|nvrtc|__cuda)'; then
            echo "$program exports names of NVIDIA's libraries: kernels/src/cuda/shims.rs hides them"
            return 1
        fi
    done
}

# The kit of benches/gpu expects its programs in one directory.
link_programs() {
    cargo test "${cargo_flags[@]}" "${unoptimised[@]}" --workspace --features cuda --test cuda --no-run --message-format json |
        python3 benches/gpu/programs.py "$programs" "$GPU_PROGRAMS"
}

stage "CUDA toolkit" fetch_toolkit
stage "simulated device" scripts/cuda-simulate.sh
SIMULATED_DEVICE=$(scripts/cuda-simulate.sh)
export SIMULATED_DEVICE REQUIRE_CUDA=1
simulated=(env "LD_LIBRARY_PATH=$SIMULATED_DEVICE:${LD_LIBRARY_PATH:-}")
# Fails if a kernel does not compile for a target of kernels/build.rs.
stage "CUDA kernels" cargo check "${cargo_flags[@]}" -p prefold-kernels --features cuda
stage "registers and instructions of the kernels" scripts/cuda-resources.py
export NVCC_APPEND_FLAGS="-Xcicc -O1 -Xptxas -O0 -Xcompiler -O0" CUDAFORGE_THREADS=${CUDAFORGE_THREADS:-$(nproc)}
stage "programs with the feature cuda" cargo build "${cargo_flags[@]}" "${unoptimised[@]}" --workspace --bins --features cuda
programs=${CARGO_TARGET_DIR:-target}/debug
stage "programs without NVIDIA's libraries" names_none_of_the_libraries "$programs"/prefold "$programs"/prefold-bench
"$programs/prefold" --version
GPU_PROGRAMS=$(realpath "$programs")/gpu-programs
export GPU_PROGRAMS
stage "compilation of the tests with the feature cuda" link_programs
# Omitted: attention alone, which takes minutes there and is checked by the emulation, and tests that need more memory than the device has.
stage "kernels and models on the simulated device" "${simulated[@]}" cargo test "${cargo_flags[@]}" "${unoptimised[@]}" --workspace \
    --features cuda --test cuda -- --skip attention:: --skip 2_to_the_31
scripts/python-env.sh
# Its times are measured on a build without optimisation.
stage "the host's part of a pass" .venv/bin/python -m pytest -q -rP tests/e2e/test_null_device.py
# One thread emulates all kernels of a process, and no two tests share a process.
two_at_once=(-n 2 --dist worksteal --durations=5)
stage "servers on the simulated device" .venv/bin/python -m pytest -q "${two_at_once[@]}" tests/e2e/test_simulated_device.py \
    tests/e2e/test_simulated_faults.py tests/e2e/test_simulated_interruptions.py tests/e2e/test_simulated_load.py tests/e2e/test_simulated_kit.py
stage "kernels called from Python on the simulated device" .venv/bin/python -m pytest -q "${two_at_once[@]}" tests/e2e/test_gpu_kernel_harness.py

#!/usr/bin/env bash
# Runs the CUDA kernels in emulation on the CPU (kernels/cuda/emulation) against plain loops: what can be known of their indices,
# bounds and barriers without a GPU. Needs a C++ compiler; about a minute. Done once for the same sources.
set -euo pipefail
cd "$(dirname "$0")/.."

out=${CARGO_TARGET_DIR:-target}/cuda-emulation
mkdir -p "$out"
hash=$(cat kernels/cuda/*.cu kernels/cuda/*.cuh kernels/cuda/emulation/* scripts/cuda-emulate.sh | sha256sum | cut -c1-16)
if [ "$(cat "$out/passed" 2>/dev/null)" = "$hash" ]; then
    echo "the CUDA kernels have passed in emulation ($hash)"
    exit
fi
# -march=native: products and sums are fused where this machine can, as on a GPU.
"${CXX:-c++}" -std=c++17 -O2 -march=native -Wall -Werror -Wno-unknown-pragmas -Wno-unused-function -DPREFOLD_EMULATION -I kernels/cuda \
    kernels/cuda/emulation/check.cpp -o "$out/check"
"$out/check"
echo "$hash" >"$out/passed"

#!/usr/bin/env bash
# Compares the CUDA kernels, emulated on the CPU (kernels/cuda/emulation), with plain loops: checks indices, bounds and barriers
# without a GPU. Needs a C++ compiler; about a minute. Skipped if the sources have not changed.
set -euo pipefail
cd "$(dirname "$0")/.."

out=${CARGO_TARGET_DIR:-target}/cuda-emulation
mkdir -p "$out"
hash=$(cat kernels/cuda/*.cu kernels/cuda/*.cuh kernels/cuda/emulation/* scripts/cuda-emulate.sh | sha256sum | cut -c1-16)
if [ "$(cat "$out/passed" 2>/dev/null)" = "$hash" ]; then
    echo "the CUDA kernels have passed in emulation ($hash)"
    exit
fi
# -march=native fuses products and sums if this machine can, as on a GPU. Threads jump between their stacks, which the checks of
# _FORTIFY_SOURCE take for an error.
"${CXX:-c++}" -std=c++17 -O2 -march=native -U_FORTIFY_SOURCE -Wall -Werror -Wno-unknown-pragmas -Wno-unused-function -DPREFOLD_EMULATION -I kernels/cuda \
    kernels/cuda/emulation/check.cpp -o "$out/check"
"$out/check"
echo "$hash" >"$out/passed"

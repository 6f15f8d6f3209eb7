#!/usr/bin/env bash
# Packs the tests and benchmarks for a GPU machine that has a driver but no Rust:
#
#     eval "$(scripts/cuda-toolchain.sh)"          # or any CUDA 13 toolkit
#     scripts/gpu-check.sh                         # writes target/gpu-check.tar.xz
#     # on the GPU machine (if tar lacks xz: python3 -m tarfile -e gpu-check.tar.xz):
#     tar xf gpu-check.tar.xz && gpu-check/run.sh [--quick]
#
# run.sh runs what is worth most first: a forward pass against reference values, a server, batches of MS MARCO's shape with the shapes of
# Qwen3-0.6B, 4B and 8B. Then each test of the kernels and models in its own process, and forward passes over a grid of batches, with
# Hugging Face transformers on the same ones if installed. One table is printed at the end. cuBLAS 13 comes from LD_LIBRARY_PATH, a
# toolkit, or PyTorch's packages.
#
# --libraries  packs cuBLAS too (0.6 GB)
# --programs   omits models and fixtures, for a machine with a checkout, whose fixtures PREFOLD_FIXTURES names
# --sanitizer  packs NVIDIA's compute-sanitizer (7 MB) for CHECKS=sanitizer: memcheck, racecheck, initcheck and synccheck over
#              all kernels
set -euo pipefail
cd "$(dirname "$0")/.."

libraries= sanitizer= data=yes
for option; do
    case $option in
        --libraries) libraries=yes ;;
        --sanitizer) sanitizer=yes ;;
        --programs) data= ;;
        *) echo "gpu-check: --libraries, --sanitizer or --programs, not $option" >&2; exit 2 ;;
    esac
done
cargo_flags=(${CARGO_FLAGS---locked})
target=${CARGO_TARGET_DIR:-target}
pack=$target/gpu-check
rm -rf "$pack"
mkdir -p "$pack/bin" "$pack/benches"

# Test programs, by cargo's names for them.
cargo test "${cargo_flags[@]}" --no-run --workspace --features cuda --test cuda --message-format json |
    python3 -c '
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("reason") == "compiler-artifact" and message["executable"] and message["target"]["name"] == "cuda":
        crate = "kernels" if "/kernels" in message["manifest_path"] else "backends"
        print(crate, message["executable"])
' | while read -r crate program; do
    strip -o "$pack/bin/test-$crate" "$program"
done
[ -x "$pack/bin/test-kernels" ] && [ -x "$pack/bin/test-backends" ] || { echo "gpu-check: no test programs" >&2; exit 1; }

# Without the built-in model, which is already in the pack.
cargo build "${cargo_flags[@]}" --release --no-default-features --features prefold/cuda,prefold-benches/cuda -p prefold \
    -p prefold-benches --bins
for program in prefold-bench prefold; do
    strip -o "$pack/bin/$program" "$target/release/$program"
done

cp benches/compare_pytorch.py "$pack/benches/"
cp scripts/gpu-run.sh "$pack/run.sh"
cp scripts/gpu-serve.py "$pack/serve.py"
git rev-parse HEAD >"$pack/commit" 2>/dev/null || echo unknown >"$pack/commit"
if [ -n "$data" ]; then
    mkdir -p "$pack/models" "$pack/tests"
    cp -r tests/fixtures tests/workloads "$pack/tests/"
    cp -r models/prefold-mini "$pack/models/"
    rm -rf "$pack/models/prefold-mini/train" "$pack/tests/fixtures/smollm2-135m"
fi
if [ -n "$libraries" ]; then
    mkdir "$pack/lib"
    cp -L "${CUDA_HOME:?}"/lib64/lib{cublas,cublasLt}.so.13 "$pack/lib/"
fi
if [ -n "$sanitizer" ]; then
    wheel=$(mktemp -d)
    trap 'rm -rf "$wheel"' EXIT
    python3 -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --root-user-action ignore --target "$wheel" \
        nvidia-cuda-sanitizer-api==13.5.25
    mkdir "$pack/sanitizer"
    cp "$wheel"/nvidia/cu13/compute-sanitizer/{compute-sanitizer,TreeLauncher*,*.so} "$pack/sanitizer/"
    chmod +x "$pack/sanitizer"/*
fi
# The programs have much in common; a dictionary that spans all of them exploits it.
tar -C "$target" -cf - gpu-check | xz --lzma2=preset=4,dict=256MiB >"$target/gpu-check.tar.xz"
du -h "$target/gpu-check.tar.xz"

#!/usr/bin/env bash
# Packs everything that shows on a GPU whether prefold works there and how fast, for a machine that has a driver and no Rust:
#
#     eval "$(scripts/cuda-toolchain.sh)"          # or any CUDA 13 toolkit
#     scripts/gpu-check.sh                         # writes target/gpu-check.tar.gz
#     # on the GPU machine:
#     tar xzf gpu-check.tar.gz && gpu-check/run.sh [--quick]
#
# run.sh runs the tests of the kernels and of whole models, the forward passes of the true shapes of Qwen3-0.6B, 4B and 8B, and
# Hugging Face transformers on the same batches where Python has them, and prints one table at the end. cuBLAS, cuRAND and NVRTC
# 13 come from LD_LIBRARY_PATH, a toolkit, or the packages that PyTorch brings; `--libraries` packs those of the toolkit too
# (about 1 GB).
set -euo pipefail
cd "$(dirname "$0")/.."

cargo_flags=(${CARGO_FLAGS---locked})
target=${CARGO_TARGET_DIR:-target}
pack=$target/gpu-check
rm -rf "$pack"
mkdir -p "$pack/bin" "$pack/models" "$pack/tests" "$pack/benches"

# The test programs, by the names that cargo gives them.
cargo test "${cargo_flags[@]}" --no-run --features cuda -p prefold-kernels -p prefold-backends --test cuda \
    --message-format json |
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

cargo build "${cargo_flags[@]}" --release --features cuda -p prefold-benches -p prefold
for program in prefold-bench prefold; do
    strip -o "$pack/bin/$program" "$target/release/$program"
done

cp -r tests/fixtures "$pack/tests/"
cp -r models/prefold-mini "$pack/models/"
rm -rf "$pack/models/prefold-mini/train" "$pack/tests/fixtures/smollm2-135m"
cp benches/compare_pytorch.py "$pack/benches/"
cp scripts/gpu-run.sh "$pack/run.sh"
git rev-parse HEAD >"$pack/commit" 2>/dev/null || echo unknown >"$pack/commit"
if [ "${1:-}" = --libraries ]; then
    mkdir "$pack/lib"
    cp -L "${CUDA_HOME:?}"/lib64/lib{cublas,cublasLt}.so.13 "$CUDA_HOME"/lib64/libcurand.so.10 \
        "$CUDA_HOME"/lib64/libnvrtc.so.13 "$CUDA_HOME"/lib64/libnvrtc-builtins.so.13.0 "$pack/lib/"
fi
tar -C "$target" -czf "$target/gpu-check.tar.gz" gpu-check
du -h "$target/gpu-check.tar.gz"

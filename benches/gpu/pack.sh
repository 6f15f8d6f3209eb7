#!/usr/bin/env bash
# Packs benches/gpu/run.py and all it needs on a machine with a GPU and no Rust into target/gpu-check.tar.xz (see README.md):
#
#     eval "$(scripts/cuda-toolchain.sh)"          # or any CUDA 13 toolkit
#     benches/gpu/pack.sh                          # programs, scripts, models and fixtures, for all supported GPUs
#     benches/gpu/pack.sh --programs --targets 90  # programs alone, for an H100 or H200 with a checkout
#
# --programs omits everything that a checkout has --targets LIST architectures of prefold's kernels, as 80,90; default:
# all --libraries packs cuBLAS too (0.6 GB); otherwise it comes from the library path, a toolkit, or PyTorch's packages
# --sanitizer packs NVIDIA's compute-sanitizer (7 MB) --most MIB fails if the archive, with --programs together with the
# tracked files of the checkout, is larger
set -euo pipefail
cd "$(dirname "$0")/../.."

libraries='' sanitizer='' data=yes most=''
while [ $# -gt 0 ]; do
    case $1 in
        --libraries) libraries=yes ;;
        --sanitizer) sanitizer=yes ;;
        --programs) data='' ;;
        --targets) export PREFOLD_CUDA_TARGETS=${2:?--targets needs a list}; shift ;;
        --most) most=${2:?--most needs a number of MiB}; shift ;;
        *) echo "pack.sh: --programs, --targets, --libraries, --sanitizer or --most, not $1" >&2; exit 2 ;;
    esac
    shift
done
cargo_flags=(${CARGO_FLAGS---locked})
target=${CARGO_TARGET_DIR:-target}
pack=$target/gpu-check
rm -rf "$pack"
mkdir -p "$pack"

# Without the built-in model, which is packed as data. The tests share the programs' build.
features=(--no-default-features --features prefold/cuda,prefold-benches/cuda,prefold-backends/cuda,prefold-kernels/cuda)
packages=(-p prefold -p prefold-benches -p prefold-backends -p prefold-kernels)
# candle links kernels for quantized experts, which kernels/src/cuda/shims.rs never registers: their machine code is compiled without
# optimisation and removed below. prefold's own kernels ignore these flags (kernels/build.rs), and candle's other kernels are PTX, which
# ptxas does not compile here.
export NVCC_APPEND_FLAGS="-Xptxas -O0" CUDAFORGE_THREADS=${CUDAFORGE_THREADS:-$(nproc)}
cargo build "${cargo_flags[@]}" --release "${packages[@]}" "${features[@]}" --bins
cargo test "${cargo_flags[@]}" --release "${packages[@]}" "${features[@]}" --no-run --test cuda --message-format json |
    python3 benches/gpu/programs.py "$target/release" "$pack/links"
cp -rL "$pack/links" "$pack/bin"
rm -rf "$pack/links"
zeros() { # number, program: as many zeros in place of the section with candle's machine code
    head -c "$1" /dev/zero >"$pack/zeros"
    objcopy --update-section .nv_fatbin="$pack/zeros" "$2"
    rm "$pack/zeros"
}
for program in "$pack"/bin/{prefold,prefold-bench,test-kernels,test-backends}; do
    strip "$program"
    bytes=$(size -A "$program" | awk '$1 == ".nv_fatbin" { print $2 }')
    [ -z "$bytes" ] || zeros "$bytes" "$program"
done
git rev-parse HEAD >"$pack/bin/commit" 2>/dev/null || echo unknown >"$pack/bin/commit"

if [ -n "$data" ]; then
    mkdir -p "$pack/router" "$pack/tests" "$pack/benches"
    cp -r benches/gpu "$pack/benches/"
    cp -r tests/fixtures tests/workloads "$pack/tests/"
    cp -r router/builtin "$pack/router/"
    rm -rf "$pack/router/builtin/train" "$pack/tests/fixtures/smollm2-135m" "$pack/benches/gpu/pack.sh"
fi
if [ -n "$libraries" ]; then
    mkdir "$pack/lib"
    cp -L "${CUDA_HOME:?}"/lib64/lib{cublas,cublasLt}.so.13 "$pack/lib/"
fi
if [ -n "$sanitizer" ]; then
    wheel=$(mktemp -d)
    python3 -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --root-user-action ignore --target "$wheel" \
        nvidia-cuda-sanitizer-api==13.5.25
    mkdir "$pack/sanitizer"
    cp "$wheel"/nvidia/cu13/compute-sanitizer/{compute-sanitizer,TreeLauncher*,*.so} "$pack/sanitizer/"
    chmod +x "$pack/sanitizer"/*
    rm -rf "$wheel"
fi
# The programs have much code in common; a dictionary that spans all of them exploits this.
tar -C "$target" -cf - gpu-check | xz --x86 --lzma2=preset=6,dict=256MiB >"$target/gpu-check.tar.xz"

bytes=$(stat -c %s "$target/gpu-check.tar.xz")
# In a sparse checkout, only the files that are present.
[ -n "$data" ] || bytes=$((bytes + $(git ls-files -z | xargs -0 cat 2>/dev/null | wc -c)))
what="$target/gpu-check.tar.xz"
[ -n "$data" ] || what+=" and the tracked files"
echo "$what: $((bytes >> 10)) KiB"
if [ -n "$most" ] && [ "$bytes" -gt $((most << 20)) ]; then
    echo "pack.sh: more than $most MiB" >&2
    exit 1
fi

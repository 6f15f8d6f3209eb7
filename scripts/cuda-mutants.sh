#!/usr/bin/env bash
# Injects faults into the CUDA code, one at a time (tests/cuda-mutants/*.patch), and fails if the tests on the simulated device miss one.
# Arguments are names of patches; without any, all run, half a minute each. Works on a copy of the sources and reuses the libraries of
# cuda-simulated.sh's build.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo_flags=(${CARGO_FLAGS---locked} --config profile.dev.opt-level=0 --config profile.dev.package.candle-core.opt-level=0
    --config profile.dev.package.prefold-kernels.opt-level=1)
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$target/cuda-mutants
copy=$work/sources
eval "$(scripts/cuda-toolchain.sh)"
export CARGO_TARGET_DIR=$target REQUIRE_CUDA=1 CUDAFORGE_THREADS=${CUDAFORGE_THREADS:-$(nproc)}
export NVCC_APPEND_FLAGS="-Xcicc -O1 -Xptxas -O0 -Xcompiler -O0"

patches=("$@")
[ $# -gt 0 ] || mapfile -t patches < <(cd tests/cuda-mutants && ls -- *.patch)
rm -rf "$copy"
mkdir -p "$copy"
# As long as the copy exists, cargo mistakes its builds, mutants included, for builds of the sources.
trap 'rm -rf "$copy"' EXIT
git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- --ignore-failed-read -cf - 2>/dev/null | tar -xf - -C "$copy"
cd "$copy"
# Makes builds left by an interrupted run older than their sources.
sed -n 's/^+++ b\///p' tests/cuda-mutants/*.patch | sort -u | xargs touch

build() { # of the tests, whose paths it writes
    cargo test "${cargo_flags[@]}" --workspace --features cuda --test cuda --no-run --message-format json 2>"$work/build.log" |
        sed -n 's/.*"executable":"\([^"]*\/cuda-[0-9a-f]*\)".*/\1/p' >"$work/tests"
    [ "$(wc -l <"$work/tests")" = 2 ]
}
simulate() { SIMULATED_DEVICE=$(CARGO_TARGET_DIR=$work scripts/cuda-simulate.sh) && export SIMULATED_DEVICE; }
passes() {
    local test
    while read -r test; do
        # A mutant may hang.
        LD_LIBRARY_PATH=$SIMULATED_DEVICE:${LD_LIBRARY_PATH:-} timeout 240 "$test" --skip attention:: --skip 2_to_the_31 || return 1
    done <"$work/tests" >"$work/test.log" 2>&1
}

simulate && build || { cat "$work/build.log"; exit 1; }
# The builds of mutants overwrite the programs.
rm -rf "$work/unchanged"
mkdir "$work/unchanged"
xargs -a "$work/tests" cp -t "$work/unchanged"
passes || { tail -40 "$work/test.log"; echo "cuda-mutants: the tests fail without a mutant"; exit 1; }
survivors=0
for patch in "${patches[@]}"; do
    patch=${patch%.patch}
    file=tests/cuda-mutants/$patch.patch
    patch -s -p1 <"$file" || { echo "cuda-mutants: $patch does not apply"; exit 1; }
    ls -d "$work/unchanged"/* >"$work/tests"
    # Kernels run from the simulator's copy, so the programs need no rebuild.
    simulate && { grep -q '^+++ b/kernels/cuda/' "$file" || build; } ||
        { cat "$work/build.log"; echo "cuda-mutants: $patch does not compile"; exit 1; }
    if passes; then
        echo "SURVIVED  $patch: $(head -1 "$file")"
        survivors=$((survivors + 1))
    else
        # The message of a test follows the line of its panic.
        said=$(grep -m1 -hE -A1 'simulated device: |panicked at' "$work/test.log" | grep -v 'panicked at' | head -1 || true)
        printf 'noticed   %-30s %s\n' "$patch" "$(cut -c1-110 <<<"${said:-$(tail -1 "$work/test.log")}")"
    fi
    patch -s -R -p1 <"$file"
done
echo "${#patches[@]} mutants, $survivors survived"
[ "$survivors" = 0 ]

#!/usr/bin/env bash
# Fuzzes with coverage feedback on stable Rust: scripts/fuzz.sh [target [seconds]]. Without arguments: all targets, a minute each.
# Interesting inputs go to target/fuzz/corpus, failing inputs to target/fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo_flags=(${CARGO_FLAGS---locked})
seconds=${2:-60}
host=$(rustc -vV | sed -n 's/^host: //p')
out=${CARGO_TARGET_DIR:-target}/fuzz

# The instrumentation flags of cargo-fuzz, without a sanitizer. --target keeps them out of build scripts.
flags="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing"
RUSTFLAGS=$(echo $flags) cargo build "${cargo_flags[@]}" --package prefold-fuzz --features libfuzzer --bin prefold-fuzz \
    --profile fuzz --target "$host" --target-dir "$out"

if [ $# -gt 0 ]; then
    targets=("$1")
else
    targets=($(ls tests/fuzz/corpus))
fi
for target in "${targets[@]}"; do
    mkdir -p "$out/corpus/$target" "$out/artifacts/$target"
    echo "== $target, $seconds s"
    PREFOLD_FUZZ_TARGET=$target "$out/$host/fuzz/prefold-fuzz" -max_total_time="$seconds" -timeout=30 -rss_limit_mb=2048 \
        -print_final_stats=1 -artifact_prefix="$out/artifacts/$target/" "$out/corpus/$target" "tests/fuzz/corpus/$target"
done

#!/usr/bin/env bash
# run.sh of what scripts/gpu-check.sh packs: all checks on this machine's GPU, one table at the end. `--quick` leaves out
# everything but tests and the smallest shape. Logs and JSON go to results/. Fails if a check fails.
set -uo pipefail
cd "$(dirname "$0")"

quick=${1:-}
results=results
mkdir -p "$results"
export PREFOLD_FIXTURES=$PWD REQUIRE_CUDA=1 RUST_BACKTRACE=1

# cuBLAS and its like: packed ones first, then a toolkit's, then PyTorch's.
paths=("$PWD/lib" /usr/local/cuda/lib64)
while read -r path; do paths+=("$path"); done < <(python3 -c '
import glob, site
for root in site.getsitepackages() + [site.getusersitepackages()]:
    print(*glob.glob(root + "/nvidia/*/lib"), sep="\n")' 2>/dev/null)
for path in "${paths[@]}"; do
    [ -n "$path" ] && [ -d "$path" ] && LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$path
done
export LD_LIBRARY_PATH
if missing=$(ldd bin/prefold-bench | grep 'not found'); then
    echo "libraries are missing:"; echo "$missing"
    exit 1
fi

table=()
failed=0
check() {
    local name=$1 log=$results/$1.log start=$SECONDS verdict=ok
    shift
    printf '\n== %s\n$ %s\n' "$name" "$*"
    "$@" 2>&1 | tee "$log"
    [ "${PIPESTATUS[0]}" = 0 ] || { verdict=FAILED; failed=1; }
    table+=("$(printf '%-28s %-7s %5ss  %s' "$name" "$verdict" $((SECONDS - start)) "$(grep -E '^test result' "$log" | tail -1)")")
}

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | tee "$results/gpu"
check kernels bin/test-kernels
check models bin/test-backends

unshared=1x32,1x128,8x128,32x128,32x512
shapes=(qwen3-0.6b:Qwen3_0_6b-28 qwen3-4b:Qwen3_4b-36 qwen3-8b:Qwen3_8b-36)
[ "$quick" = --quick ] && shapes=("${shapes[0]}")
for shape in "${shapes[@]}"; do
    name=${shape%%:*}
    check "forward-$name" bin/prefold-bench forward --device cuda --shape "$name" --unshared "$unshared" --runs 5 \
        --models "$results/models" --json "$results/forward-$name.json"
    if python3 -c 'import torch, transformers; assert torch.cuda.is_available()' 2>/dev/null; then
        check "transformers-$name" python3 benches/compare_pytorch.py forward "$results/models/${shape##*:}" --unshared "$unshared"
    fi
    rm -rf "$results/models/${shape##*:}/model.safetensors" # 16 GB for the largest
done

printf '\n%s, commit %s, %s\n' "$(head -1 "$results/gpu")" "$(cat commit)" "$(date -u +%F)"
printf '%s\n' "${table[@]}" | tee "$results/table"
exit $failed

#!/usr/bin/env bash
# run.sh of the pack made by scripts/gpu-check.sh: runs all checks on this machine's GPU and prints one table at the end. What is worth
# most comes first, for a machine that is there for ten minutes: a forward pass against reference values, a server from end to end, the
# batches of MS MARCO's shape (the table of the paper), then the tests, and the grid of other batches. `--quick` runs only the smallest
# shape. SHAPES="qwen3-8b" selects shapes, CHECKS="first serve" checks, LIMIT=240 the seconds allowed per check. "sanitizer" is slow
# and runs only if CHECKS names it. Logs, JSON and the rows of the table go to results/ as each check ends. Fails if a check fails.
set -uo pipefail
cd "$(dirname "$0")"

quick=${1:-}
results=results
mkdir -p "$results"
export PREFOLD_FIXTURES=${PREFOLD_FIXTURES:-$PWD} REQUIRE_CUDA=1 RUST_BACKTRACE=1
# The benchmarks load their tokenizer from there.
[ -e models ] || ln -s "$PREFOLD_FIXTURES/models" models

# Libraries (cuBLAS, ...) of prefold's programs: packed ones first, then a toolkit's, PyTorch's, and the previous path. PyTorch itself
# runs with the previous path.
found=${LD_LIBRARY_PATH:-}
libraries=
paths=("$PWD/lib" /usr/local/cuda/lib64)
while read -r path; do paths+=("$path"); done < <(python3 -c '
import glob, site
for root in site.getsitepackages() + [site.getusersitepackages()]:
    print(*glob.glob(root + "/nvidia/*/lib"), sep="\n")' 2>/dev/null)
for path in "${paths[@]}"; do
    [ -n "$path" ] && [ -d "$path" ] && libraries=${libraries:+$libraries:}$path
done
ours=(env "LD_LIBRARY_PATH=$libraries${libraries:+${found:+:}}$found")

rm -f "$results/table"
failed=0
wanted() { [[ " ${CHECKS:-first serve msmarco kernels models bandwidth encoders forward http transformers} " == *" $1 "* ]]; }
check() {
    local name=$1 log=$results/$1.log start=$SECONDS verdict=ok
    shift
    printf '\n== %s\n$ %s\n' "$name" "$*"
    # A kernel that hangs fails alone; the other checks run.
    timeout -k 5 "${LIMIT:-240}" "$@" 2>&1 | tee "$log"
    [ "${PIPESTATUS[0]}" = 0 ] || { verdict=FAILED; failed=1; }
    printf '%-64s %-7s %5ss\n' "$name" "$verdict" $((SECONDS - start)) >>"$results/table"
}
# One process per test: after a kernel error a process can no longer use the GPU.
tests() {
    local test
    for test in $("${ours[@]}" "bin/test-$2" --list --format terse | sed -n 's/: test$//p'); do
        check "$1-$test" "${ours[@]}" "bin/test-$2" --exact "$test" --nocapture
    done
}

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | tee "$results/gpu" || { echo "there is no GPU here"; exit 1; }
# Also says which library is missing, if one is.
wanted first && check first-forward "${ours[@]}" bin/test-backends --nocapture \
    --exact fixtures_agree_with_hugging_face_in_every_type_and_every_way
if wanted serve; then
    check serve "${ours[@]}" python3 serve.py compare bin/prefold "$PREFOLD_FIXTURES/models/prefold-mini" cuda
    check serve-encoder "${ours[@]}" python3 serve.py compare bin/prefold "$PREFOLD_FIXTURES/tests/fixtures/bert-mean-tiny" cuda
fi

all="qwen3-0.6b qwen3-4b qwen3-8b"
[ "$quick" = --quick ] && all=qwen3-0.6b
# Sets `model` to a model of the shape, which it generates where there is none.
model_of() {
    case $1 in
        qwen3-0.6b) model=Qwen3_0_6b-28 ;;
        qwen3-4b) model=Qwen3_4b-36 ;;
        qwen3-8b) model=Qwen3_8b-36 ;;
        *) echo "no such shape: $1" >&2; exit 2 ;;
    esac
    [ -e "$results/models/$model/model.safetensors" ] ||
        "${ours[@]}" bin/prefold-bench model --shape "$1" "$results/models/$model"
}
if wanted msmarco; then
    for shape in ${SHAPES:-$all}; do
        model_of "$shape"
        check "msmarco-$shape" "${ours[@]}" bin/prefold-bench forward --device cuda --shape "$shape" --prefix 1 --runs 5 \
            --models "$results/models" --json "$results/msmarco-$shape.json"
    done
fi

wanted kernels && tests kernels kernels
wanted models && tests models backends
if wanted sanitizer; then
    sanitizer=$PWD/sanitizer/compute-sanitizer
    [ -x "$sanitizer" ] || sanitizer=compute-sanitizer
    # Large matrices are skipped: the tools' own bookkeeping leaves too little memory and makes them slow.
    for tool in memcheck racecheck initcheck synccheck; do
        check "$tool" "${ours[@]}" "$sanitizer" --tool "$tool" --error-exitcode 1 bin/test-kernels --test-threads 1 \
            --skip matrices_of_more_than_2_to_the_31
    done
fi
wanted bandwidth && check bandwidth "${ours[@]}" bin/prefold-bench gpu --json "$results/gpu.json"
if wanted encoders; then
    for shape in minilm-l6 bge-base; do
        check "forward-$shape" "${ours[@]}" bin/prefold-bench forward --device cuda --shape "$shape" --no-msmarco --prefix 1 \
            --unshared 1x12,512x89,64x512 --runs 5 --models "$results/models" --json "$results/forward-$shape.json"
    done
fi

unshared=1x32,1x128,8x128,32x128,32x512
for shape in ${SHAPES:-$all}; do
    wanted forward || wanted http || wanted transformers || continue
    model_of "$shape"
    wanted forward && check "forward-$shape" "${ours[@]}" bin/prefold-bench forward --device cuda --shape "$shape" --no-msmarco \
        --unshared "$unshared" --runs 5 --models "$results/models" --json "$results/forward-$shape.json"
    wanted http && check "http-$shape" "${ours[@]}" python3 serve.py load bin/prefold "$results/models/$model" cuda \
        "$PREFOLD_FIXTURES/tests/workloads/docs-rerank.jsonl"
    if wanted transformers && python3 -c 'import torch, transformers; assert torch.cuda.is_available()' 2>/dev/null; then
        check "transformers-$shape" python3 benches/compare_pytorch.py forward "$results/models/$model" --unshared "$unshared"
    fi
    rm -f "$results/models/$model/model.safetensors" # 16 GB for the largest
done

printf '\n%s, commit %s, %s\n' "$(head -1 "$results/gpu")" "$(cat commit)" "$(date -u +%F)"
cat "$results/table"
exit $failed

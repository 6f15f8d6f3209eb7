#!/usr/bin/env bash
# Long runs of the reliability tests on the optimised binary: overload, soak, schemathesis, first-request or adversary. Further arguments
# are passed to the test. Figures go to target/reliability.
set -euo pipefail
cd "$(dirname "$0")/.."

what=$1
shift
cargo_flags=(${CARGO_FLAGS---locked})
results=${CARGO_TARGET_DIR:-target}/reliability

scripts/python-env.sh
export PREFOLD_PROFILE=${PREFOLD_PROFILE:-release}
case $PREFOLD_PROFILE in
    release) cargo build "${cargo_flags[@]}" --release -p prefold ;;
    debug) cargo build "${cargo_flags[@]}" --workspace --bins ;;
    *) echo "PREFOLD_PROFILE is release or debug, not $PREFOLD_PROFILE" >&2; exit 2 ;;
esac
mkdir -p "$results"
case $what in
    overload) arguments=(--json "$results/overload.json") ;;
    soak) arguments=(--json "$results/soak.json" --svg "$results/soak.svg") ;;
    schemathesis) arguments=(--json "$results/schemathesis.json") ;;
    first-request) arguments=(--json "$results/first-request.json") ;;
    adversary) arguments=(--json "$results/adversary.json") ;;
    *) echo "overload, soak, schemathesis, first-request or adversary, not $what" >&2; exit 2 ;;
esac
folder=tests/load
[ "$what" != schemathesis ] || what=conformance
[ "$what" != adversary ] || folder=tests/adversary
.venv/bin/python "$folder/${what//-/_}.py" "${arguments[@]}" "$@"

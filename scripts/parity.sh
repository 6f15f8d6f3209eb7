#!/usr/bin/env bash
# Compares random checkpoints in the optimised server with transformers and sentence-transformers, in an environment of their own (6 GB).
# Arguments are passed to tests/parity/parity.py. Findings and figures go to target/parity.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo_flags=(${CARGO_FLAGS---locked})
results=${CARGO_TARGET_DIR:-target}/parity
python=$results/environment/bin/python
# An environment that exists already, with these packages.
if [ -n "${PARITY_PYTHON:-}" ]; then
    python=$PARITY_PYTHON
else
    mkdir -p "$results"
    scripts/python-env.sh tests/parity/requirements.txt "$results/environment"
fi
export PREFOLD_PROFILE=${PREFOLD_PROFILE:-release}
case $PREFOLD_PROFILE in
    release) cargo build "${cargo_flags[@]}" --release -p prefold ;;
    debug) cargo build "${cargo_flags[@]}" --bin prefold ;;
    *) echo "PREFOLD_PROFILE is release or debug, not $PREFOLD_PROFILE" >&2; exit 2 ;;
esac
"$python" tests/parity/parity.py --folder "$results" "$@"

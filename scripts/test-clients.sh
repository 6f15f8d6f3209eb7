#!/usr/bin/env bash
# Tests the real server with real clients: the clients of tests/e2e/test_clients.py and similar tests, the examples, the page
# /docs in Chromium, the deployment files with Helm, Kubernetes' schemas and nginx, and all-MiniLM-L6-v2. Tests whose program is missing
# (Node, Chromium, nginx, promtool) are skipped and reported. Arguments are passed to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo_flags=(${CARGO_FLAGS---locked})

scripts/python-env.sh
.venv/bin/python -m pip install --quiet --disable-pip-version-check --requirement tests/deployment-requirements.txt
cargo build "${cargo_flags[@]}" -p prefold
PREFOLD_MINILM=${PREFOLD_MINILM:-$(scripts/fetch-minilm.sh)}
export PREFOLD_MINILM
cd tests/e2e
../../.venv/bin/python -m pytest -rs test_openai_client.py test_clients.py test_examples.py test_docs_page.py \
    test_deployment.py test_chart_values.py test_alerts.py test_nginx.py test_traces.py test_encoders.py "$@"

#!/usr/bin/env bash
# Real clients against the real server: the packages of tests/e2e/test_clients.py and their like, the examples, the page
# /docs in Chromium, and the deployment files with Helm, Kubernetes' schemas and nginx. What the machine lacks (Node,
# Chromium, nginx) is skipped and said. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo_flags=(${CARGO_FLAGS---locked})

scripts/python-env.sh
.venv/bin/python -m pip install --quiet --disable-pip-version-check --requirement tests/deployment-requirements.txt
cargo build "${cargo_flags[@]}" -p prefold
cd tests/e2e
../../.venv/bin/python -m pytest -rs test_openai_client.py test_clients.py test_examples.py test_docs_page.py \
    test_deployment.py test_traces.py "$@"

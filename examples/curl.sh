#!/usr/bin/env bash
# Common calls with curl. The first argument is the server's URL.
set -euo pipefail
url=${1:-http://localhost:3000}

ask() {
    echo "POST $1"
    curl --silent --show-error --fail-with-body "$url$1" -H 'content-type: application/json' -d "$2"
    echo
}

ask /v1/embeddings '{"model": "prefold-mini", "input": "How do I lock a file?", "dimensions": 4}'
ask /embed '{"inputs": ["How do I lock a file?", "Use flock."], "dimensions": 4}'
ask /rerank '{"query": "How do I lock a file?", "texts": ["Use flock.", "The tide comes in."]}'
ask /v1/rerank '{"query": "How do I lock a file?", "documents": ["Use flock.", "The tide comes in."], "top_n": 1}'
ask /v1/score '{"queries": "How do I lock a file?", "documents": ["Use flock."]}'
curl --silent --show-error --fail-with-body "$url/ready"
echo

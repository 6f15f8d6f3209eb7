#!/usr/bin/env bash
# Serves all-MiniLM-L6-v2, embeds three sentences, and prints which of the last two is more similar to the first.
#
#     examples/minilm.sh            with the binary: `prefold` from the PATH, or PREFOLD=target/release/prefold
#     examples/minilm.sh docker     with the image: docker build --target cpu -t prefold:cpu .
#
# The first run downloads 90 MB from the Hugging Face hub; later runs use the cache. MODEL selects another model or a directory.
set -euo pipefail
model=${MODEL:-sentence-transformers/all-MiniLM-L6-v2}
port=${PORT:-3000}
flags=(--model-id "$model" --dtype bfloat16)

case ${1:-binary} in
binary)
    "${PREFOLD:-prefold}" "${flags[@]}" --hostname 127.0.0.1 --port "$port" >&2 &
    server=$!
    trap 'kill $server; wait $server' EXIT
    is_running() { kill -0 $server 2>/dev/null; }
    ;;
docker)
    container=$(docker run --rm --detach --publish "127.0.0.1:$port:3000" --volume prefold-models:/data prefold:cpu "${flags[@]}")
    trap 'docker stop --time 30 "$container" >/dev/null' EXIT
    is_running() { [ -n "$(docker ps --quiet --no-trunc --filter "id=$container")" ]; }
    ;;
*)
    echo "usage: $0 [binary|docker]" >&2
    exit 2
    ;;
esac

until curl --silent --fail --output /dev/null "http://127.0.0.1:$port/ready"; do
    is_running || { echo 'the server has ended; its message is above' >&2; exit 1; }
    sleep 0.1
done

curl --silent --show-error --fail-with-body "http://127.0.0.1:$port/similarity" -H 'content-type: application/json' -d '{"inputs": {
    "source_sentence": "How do I lock a file?",
    "sentences": ["Use flock.", "The tide comes in twice a day."]}}'
echo

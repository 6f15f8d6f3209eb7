"""Retrieve passages by embedding, then rerank the best ones: the two steps of a RAG search.

    prefold --port 3000                                        # embeddings
    prefold --port 3001 --model-id Qwen/Qwen3-Reranker-0.6B    # reranker (one server may do both)
    python rag_rerank.py 'How do I lock a file?' passages.txt --embed http://localhost:3000 --rerank http://localhost:3001

Only the standard library is used.
"""

import argparse
import hashlib
import json
import math
import urllib.request


def ask(url, request, **headers):
    body = json.dumps(request).encode()
    headers["content-type"] = "application/json"
    with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as response:
        return json.load(response)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("question")
    parser.add_argument("passages", type=argparse.FileType(), help="a text file, one passage per line")
    parser.add_argument("--embed", default="http://localhost:3000")
    parser.add_argument("--rerank", default="http://localhost:3000")
    parser.add_argument("--candidates", type=int, default=20, help="passages passed to the reranker")
    parser.add_argument("--top", type=int, default=3)
    args = parser.parse_args()

    passages = [line.strip() for line in args.passages if line.strip()]
    vectors = ask(f"{args.embed}/embed", {"inputs": passages})
    (query,) = ask(f"{args.embed}/embed", {"inputs": args.question})
    cosines = [math.sumprod(query, vector) if hasattr(math, "sumprod") else sum(map(float.__mul__, query, vector))
               for vector in vectors]
    candidates = sorted(range(len(passages)), key=lambda i: -cosines[i])[:args.candidates]

    # All candidates share the instruction and the question, which the server computes once. Behind a load balancer, the
    # key routes requests with the same question to the same replica (deploy/nginx.conf).
    request = {"query": args.question, "top_n": args.top, "documents": [passages[i] for i in candidates]}
    key = hashlib.sha256(args.question.encode()).hexdigest()
    answer = ask(f"{args.rerank}/v1/rerank", request, **{"x-prefix-key": key})
    for result in answer["results"]:
        print(f"{result['relevance_score']:.3f}  {passages[candidates[result['index']]]}")
    usage = answer["usage"]
    print(f"{usage['total_tokens']} tokens, {usage['prompt_tokens_details']['cached_tokens']} of them shared and computed once")


if __name__ == "__main__":
    main()

"""All routes (router/src/routes/table.rs) with a valid request and the values of its fields."""

from dataclasses import dataclass


def texts(field, **others):
    """Makes a body of texts: a list of them in one field."""
    return lambda made: {field: made, **others}


@dataclass(frozen=True)
class Route:
    """A method and a path. `body` makes a body from a list of texts; `wrong` are fields that must not contain texts."""

    method: str
    path: str
    body: object = None
    is_open: bool = False
    wrong: tuple = ()
    values: int = 0  # Maximum vectors in the answer to one input.
    is_tokenizer: bool = False

    def __str__(self):
        return f"{self.method} {self.path}"


ENCODED = ("truncate", "truncate_prompt_tokens", "truncation_side", "add_special_tokens")
TEI = ("truncate", "truncation_direction")
RANKED = ("top_n", "raw_scores", "truncate", "return_documents", "truncate_prompt_tokens", "max_tokens_per_doc", "max_tokens_per_query", "chat_template_kwargs",
          "padding", "messages")
SCORED = ("truncate", "truncate_prompt_tokens", "truncation_side", "max_tokens_per_doc", "max_tokens_per_query", "chat_template_kwargs", "padding",
          "messages")


def openai(path):
    wrong = ("encoding_format", "dimensions", "output_dtype", "embedding_type", "embed_dtype", "endianness", "normalized",
             "late_chunking", "return_multivector", "padding", "messages", *ENCODED)
    return Route("POST", path, texts("input", model="any"), wrong=wrong, values=1)


def cohere(path, **others):
    wrong = ("embedding_types", "images", "inputs", "output_dimension", "truncate", "max_tokens")
    return Route("POST", path, texts("texts", model="any", **others), wrong=wrong, values=1)


def rerank(path, field):
    def body(made):
        return {"query": made[0], field: made, ("return_text" if field == "texts" else "return_documents"): True}
    return Route("POST", path, body, wrong=(*RANKED, "texts"), values=1)


def score(path):
    return Route("POST", path, lambda made: {"queries": made[0], "documents": made}, wrong=SCORED, values=1)


def classify(path):
    return Route("POST", path, texts("input"), wrong=("use_activation", "labels", "classifier_id", "padding", "messages", *ENCODED), values=1)


POSTS = (
    openai("/v1/embeddings"), openai("/embeddings"),
    Route("POST", "/embed", texts("inputs"), wrong=("normalize", "dimensions", *TEI), values=1),
    Route("POST", "/embed_all", texts("inputs"), wrong=TEI, values=64),
    Route("POST", "/similarity", lambda made: {"inputs": {"source_sentence": made[0], "sentences": made}}, wrong=("inputs", "parameters"),
          values=1),
    cohere("/v1/embed"), cohere("/v2/embed", embedding_types=["float", "int8", "uint8", "base64"]),
    rerank("/rerank", "texts"), rerank("/rerank", "documents"), rerank("/v1/rerank", "documents"), rerank("/v2/rerank", "documents"),
    score("/v1/score"), score("/score"),
    Route("POST", "/predict", lambda made: {"inputs": [[text] for text in made]}, wrong=("raw_scores", *TEI), values=1),
    Route("POST", "/predict_tokens", texts("inputs"), wrong=("aggregation_strategy", "raw_scores", "ignore_labels", *TEI), values=64),
    rerank("/reranking", "documents"), rerank("/v1/reranking", "documents"),
    classify("/v1/classify"), classify("/classify"),
    Route("POST", "/pooling", texts("input"), wrong=("encoding_format", "dimensions", "embed_dtype", "endianness", "task", *ENCODED), values=1),
    Route("POST", "/pooling", texts("input", task="token_embed"), wrong=("use_activation", *ENCODED), values=64),
    Route("POST", "/invocations", texts("input"), wrong=ENCODED, values=1),
    Route("POST", "/api/embed", texts("input", model="any:latest"), wrong=("truncate", "dimensions"), values=1),
    Route("POST", "/api/embeddings", lambda made: {"prompt": made[0]}, values=1),
    Route("POST", "/api/show", lambda made: {"model": "any"}, wrong=("verbose",)),
    Route("POST", "/api/pull", lambda made: {"model": "any"}, wrong=("stream", "insecure")),
    Route("POST", "/tokenize", lambda made: {"prompt": made[0]}, wrong=("return_token_strs", "messages"), is_tokenizer=True),
    Route("POST", "/tokenize", texts("inputs"), wrong=("add_special_tokens",), is_tokenizer=True),
    Route("POST", "/decode", lambda made: {"ids": [[1 + len(text) % 97 for text in made]]}, wrong=("ids", "skip_special_tokens"),
          is_tokenizer=True),
    Route("POST", "/detokenize", lambda made: {"tokens": [1 + len(text) % 97 for text in made]}, wrong=("tokens",), is_tokenizer=True),
    Route("POST", "/v1/tokenize", lambda made: {"text": " ".join(made), "model": "any"}, is_tokenizer=True),
    Route("POST", "/v1/detokenize", lambda made: {"tokens": [1 + len(text) % 97 for text in made]}, wrong=("tokens",), is_tokenizer=True),
    # A token classifier answers for each token.
    Route("POST", "/", texts("inputs"), wrong=TEI, values=64),
)
GETS = (
    *(Route("GET", path) for path in (
        "/v1/models", "/v1/models/prefold-mini", "/models", "/info", "/version", "/api/version", "/api/tags", "/api/ps")),
    *(Route("GET", path, is_open=True) for path in (
        "/", "/health", "/ready", "/ping", "/metrics", "/docs", "/docs/", "/docs/swagger-ui-bundle.js", "/docs/swagger-ui.css",
        "/api-doc/openapi.json")),
    Route("GET", "/no/such/route", is_open=True),
)
ROUTES = POSTS + GETS
BY_NAME = {str(route): route for route in ROUTES}
EMBED, EMBED_ALL, OPENAI, TOKENIZE = (BY_NAME[f"POST {path}"] for path in ("/embed", "/embed_all", "/v1/embeddings", "/tokenize"))
BUNDLE, HEALTH = BY_NAME["GET /docs/swagger-ui-bundle.js"], BY_NAME["GET /health"]

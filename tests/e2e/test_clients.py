"""Common client libraries with the real server: their vectors and scores equal the server's.

The `openai` package is tested in test_openai_client.py.
"""

import asyncio
import json
import os

import pytest

from reference import assert_close, dot, normalized

# Some of these clients look up models, prices or news on the network, which is not available to tests.
os.environ.update({"HF_HUB_DISABLE_TELEMETRY": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LANGSMITH_TRACING": "false"})

MODEL = "prefold-mini"
QUERY = "How do I restart a service after a crash?"
TEXTS = [
    "A dog runs across a field.",
    "To start it again when it fails, enable automatic restarts.",
    "Set Restart=on-failure in the unit file.",
]
ROUNDING = 1e-6


@pytest.fixture(scope="module")
def rows(builtin):
    return builtin.ask("/embed", inputs=TEXTS)


@pytest.fixture(scope="module")
def ranking(builtin):
    """`[(index, score), ...]`, best first."""
    return [(line["index"], line["score"]) for line in builtin.ask("/rerank", query=QUERY, texts=TEXTS)]


def assert_rows(got, rows):
    assert len(got) == len(rows)
    for vector, row in zip(got, rows, strict=True):
        assert_close([float(x) for x in vector], row, ROUNDING)


def assert_ranking(got, ranking):
    assert [index for index, _ in got] == [index for index, _ in ranking]
    assert_close([score for _, score in got], [score for _, score in ranking], ROUNDING)


def relevance(results):
    return [(result.index, result.relevance_score) for result in results]


def test_openai_async(builtin, rows):
    import openai

    async def embed():
        async with openai.AsyncOpenAI(base_url=builtin.url("/v1"), api_key="none", max_retries=0) as client:
            answers = await asyncio.gather(*(client.embeddings.create(model=MODEL, input=text) for text in TEXTS))
            return [answer.data[0].embedding for answer in answers]

    assert_rows(asyncio.run(embed()), rows)


def test_openai_knows_the_model(builtin):
    import openai

    client = openai.OpenAI(base_url=builtin.url("/v1"), api_key="none", max_retries=0)
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).owned_by == "prefold"


def test_cohere_v1(builtin, ranking):
    import cohere

    client = cohere.Client(api_key="none", base_url=builtin.url())
    answer = client.rerank(model=MODEL, query=QUERY, documents=TEXTS, return_documents=True)
    assert_ranking(relevance(answer.results), ranking)
    assert [result.document.text for result in answer.results] == [TEXTS[index] for index, _ in ranking]
    assert answer.meta.billed_units.search_units == 1
    objects = client.rerank(model=MODEL, query=QUERY, documents=[{"text": text} for text in TEXTS], top_n=2)
    assert_ranking(relevance(objects.results), ranking[:2])


def test_cohere_v2(builtin, ranking):
    import cohere

    client = cohere.ClientV2(api_key="none", base_url=builtin.url())
    answer = client.rerank(model=MODEL, query=QUERY, documents=TEXTS, top_n=2, max_tokens_per_doc=4096)
    assert_ranking(relevance(answer.results), ranking[:2])
    assert answer.id and answer.meta.api_version.version == "2"
    with pytest.raises(cohere.errors.BadRequestError):
        client.rerank(model=MODEL, query=QUERY, documents=[])


def unpacked(vector):
    """The bits of a vector of ubinary: true for a positive value."""
    return [bool(byte >> 7 - bit & 1) for byte in vector for bit in range(8)]


@pytest.mark.parametrize("version", ["Client", "ClientV2"])
def test_cohere_embeds(builtin, rows, version):
    import cohere

    client = getattr(cohere, version)(api_key="none", base_url=builtin.url())
    types = ["float", "int8", "uint8", "binary", "ubinary", *(["base64"] if version == "ClientV2" else [])]
    answer = client.embed(model=MODEL, texts=TEXTS, input_type="search_document", embedding_types=types)
    vectors = answer.embeddings
    documents = builtin.ask("/embed", inputs=TEXTS, input_type="document")
    assert_rows(vectors.float_, documents)
    assert answer.texts == TEXTS and answer.response_type == "embeddings_by_type"
    assert answer.meta.billed_units.input_tokens > 0
    assert vectors.uint8 == [[value + 128 for value in vector] for vector in vectors.int8]
    assert vectors.binary == [[value - 128 for value in vector] for vector in vectors.ubinary]
    assert [unpacked(vector) for vector in vectors.ubinary] == [[value > 0 for value in row] for row in documents]
    for vector, row in zip(vectors.int8, documents, strict=True):
        assert dot(normalized(vector), row) > 0.999
    with pytest.raises(cohere.errors.BadRequestError) as refused:
        client.embed(model=MODEL, texts=["a " * 5000], input_type="clustering", embedding_types=["float"], truncate="NONE")
    assert "tokens" in refused.value.body["message"]
    (short,) = client.embed(model=MODEL, texts=["a " * 5000], input_type="clustering", embedding_types=["float"],
                            truncate="START").embeddings.float_
    assert len(short) == len(rows[0])


def test_cohere_embeds_many_texts_and_parts(builtin, rows):
    import base64
    import struct

    import cohere

    client = cohere.Client(api_key="none", base_url=builtin.url())
    many = client.embed(texts=TEXTS * 40, model=MODEL)  # More than the client sends at once.
    assert_rows(many.embeddings, rows * 40)
    assert (many.response_type, many.texts) == ("embeddings_floats", TEXTS * 40)
    client = cohere.ClientV2(api_key="none", base_url=builtin.url())
    inputs = [{"content": [{"type": "text", "text": text}]} for text in TEXTS]
    answer = client.embed(model=MODEL, inputs=inputs, input_type="classification", embedding_types=["base64"],
                          output_dimension=64, max_tokens=512)
    got = [struct.unpack("<64f", base64.b64decode(text)) for text in answer.embeddings.base64]
    assert_rows(got, builtin.ask("/embed", inputs=TEXTS, dimensions=64))
    assert answer.texts is None and answer.embeddings.float_ is None


def test_cohere_knows_models_and_tokens(builtin):
    import cohere

    client = cohere.Client(api_key="none", base_url=builtin.url())
    (model,) = client.models.list(endpoint="embed", default_only=True).models
    assert (model.name, model.endpoints, model.finetuned) == (MODEL, ["embed", "rerank"], False)
    assert model.context_length == builtin.get("/info").json()["max_input_length"]
    assert client.models.get(MODEL).name == MODEL and client.models.list(endpoint="chat").models == []
    tokens = client.tokenize(text=QUERY, model=MODEL)  # It falls back to the route: no file of the tokenizer is offered.
    assert "".join(tokens.token_strings) == QUERY
    assert client.detokenize(tokens=tokens.tokens, model=MODEL).text == QUERY


def test_cohere_limits_documents(builtin, served):
    import cohere

    long = TEXTS[1] + " More words follow that say nothing of it." * 20
    for server in (builtin, served("xlm-roberta-reranker-tiny")):
        client = cohere.ClientV2(api_key="none", base_url=server.url())

        def tokens(document, limit=None, server=server):
            answer = server.ask("/v2/rerank", query=QUERY, documents=[document], max_tokens_per_doc=limit)
            return answer["usage"]["prompt_tokens"]
        assert tokens(long, 9) + 1 == tokens(long, 10) < tokens(long)
        short = client.rerank(model=MODEL, query=QUERY, documents=[long], max_tokens_per_doc=10)
        whole = client.rerank(model=MODEL, query=QUERY, documents=[long])
        assert short.results[0].relevance_score != whole.results[0].relevance_score
        with pytest.raises(cohere.errors.BadRequestError):
            client.rerank(model=MODEL, query=QUERY, documents=[long], max_tokens_per_doc=-1)


def test_voyage(builtin, rows, ranking):
    import voyageai

    client = voyageai.Client(api_key="none", base_url=builtin.url("/v1"), max_retries=0)
    answer = client.rerank(QUERY, TEXTS, model=MODEL, top_k=2)
    assert_ranking(relevance(answer.results), ranking[:2])
    assert answer.total_tokens > 0
    assert_rows(client.embed(TEXTS, model=MODEL).embeddings, rows)


def test_voyage_says_how_it_wants_vectors(builtin, rows):
    import voyageai

    client = voyageai.Client(api_key="none", base_url=builtin.url("/v1"), max_retries=0)
    short = client.embed(TEXTS, model=MODEL, output_dimension=64).embeddings
    assert_rows(short, builtin.ask("/embed", inputs=TEXTS, dimensions=64))
    assert_rows(client.embed(TEXTS, model=MODEL, output_dtype="float", truncation=True).embeddings, rows)
    int8, uint8, binary, ubinary = (client.embed(TEXTS, model=MODEL, output_dtype=dtype).embeddings
                                    for dtype in ("int8", "uint8", "binary", "ubinary"))
    for vector, row in zip(int8, rows, strict=True):
        assert dot(normalized(vector), row) > 0.999
    assert uint8 == [[value + 128 for value in vector] for vector in int8]
    assert binary == [[value - 128 for value in vector] for vector in ubinary]
    assert [unpacked(vector) for vector in ubinary] == [[value > 0 for value in row] for row in rows]
    with pytest.raises(voyageai.error.InvalidRequestError, match="output_dtype"):
        client.embed(TEXTS, model=MODEL, output_dtype="int4")
    with pytest.raises(voyageai.error.InvalidRequestError, match="tokens"):
        client.embed(["a " * 5000], model=MODEL, truncation=False)


def test_infinitys_client(builtin, rows, ranking):
    import infinity_client
    from infinity_client.api.default import embeddings, rerank
    from infinity_client.models import OpenAIEmbeddingInputText, RerankInput

    with infinity_client.Client(base_url=builtin.url()) as client:
        answer = embeddings.sync(client=client, body=OpenAIEmbeddingInputText(input_=TEXTS))
        assert_rows([item.embedding for item in answer.data], rows)
        answer = rerank.sync(client=client, body=RerankInput(query=QUERY, documents=TEXTS))
        assert_ranking(relevance(answer.results), ranking)


def test_infinitys_client_reads_models_health_and_classes(builtin, served):
    import infinity_client
    from infinity_client.api.default import classify, health, models
    from infinity_client.models import ClassifyInput

    with infinity_client.Client(base_url=builtin.url()) as client:
        listed = models.sync(client=client).data
        listed = listed if isinstance(listed, list) else [listed]
        assert [(model.id, model.stats["queue_absolute"]) for model in listed] == [(MODEL, 0)]
        assert health.sync(client=client)["unix"] > 1e9
    classifier = served("qwen3-seqcls-tiny", "--radix-mlp-threshold", "1")
    with infinity_client.Client(base_url=classifier.url()) as client:
        for raw in (False, True):
            answer = classify.sync(client=client, body=ClassifyInput(input_=TEXTS, raw_scores=raw))
            for text, labels in zip(TEXTS, answer.data, strict=True):
                want = classifier.ask("/predict", inputs=text, raw_scores=raw)
                assert [label.label for label in labels] == [label["label"] for label in want]
                assert_close([label.score for label in labels], [label["score"] for label in want], ROUNDING)


def test_ollama(builtin, rows):
    import ollama

    client = ollama.Client(builtin.url())
    answer = client.embed(MODEL, TEXTS, truncate=True, keep_alive="5m", options={"num_ctx": 8192})
    assert_rows(answer.embeddings, rows)
    assert answer.model == MODEL and answer.total_duration > 0 and answer.prompt_eval_count > 0
    assert_rows(client.embed(f"{MODEL}:latest", TEXTS[0], dimensions=64).embeddings, builtin.ask("/embed", inputs=TEXTS[:1], dimensions=64))
    assert client.embed(MODEL).embeddings == []
    assert_rows([client.embeddings(MODEL, TEXTS[0]).embedding], rows[:1])
    [model] = client.list().models
    assert model.model == f"{MODEL}:latest" and model.modified_at and model.details.family == "qwen3"
    [loaded] = client.ps().models
    assert loaded.model == model.model and loaded.context_length == 2048
    shown = client.show(MODEL)
    assert shown.capabilities == ["embedding"] and shown.modelinfo["qwen3.embedding_length"] == len(rows[0])
    with pytest.raises(ollama.ResponseError, match="exceeds the context length") as refused:
        client.embed(MODEL, "a " * 5000, truncate=False)
    assert refused.value.status_code == 400
    with pytest.raises(ollama.ResponseError, match="no model"):
        client.show("another")


def test_ollama_async(builtin, rows):
    import ollama

    async def embed():
        client = ollama.AsyncClient(builtin.url())
        answers = await asyncio.gather(*(client.embed(MODEL, text) for text in TEXTS))
        return [answer.embeddings[0] for answer in answers]

    assert_rows(asyncio.run(embed()), rows)


def test_langchain_ollama(builtin, rows):
    from langchain_ollama import OllamaEmbeddings

    embeddings = OllamaEmbeddings(model=MODEL, base_url=builtin.url(), validate_model_on_init=True, num_ctx=2048, keep_alive=60)
    assert_rows(embeddings.embed_documents(TEXTS), rows)
    assert_rows([embeddings.embed_query(TEXTS[0])], rows[:1])
    assert_rows(asyncio.run(embeddings.aembed_documents(TEXTS)), rows)


def test_open_webuis_calls(builtin, rows):
    """The requests of Open WebUI's embedding engine for Ollama, and of its connection to it."""
    key = {"authorization": "Bearer "}
    answer = builtin.request("POST", "/api/embed", json.dumps({"input": TEXTS, "model": MODEL}), key)
    assert_rows(answer.json()["embeddings"], rows)
    names = [model["model"] for model in builtin.request("GET", "/api/tags", None, key).json()["models"]]
    assert names == [f"{MODEL}:latest"] and builtin.get("/api/version").json()["version"]
    prefixed = builtin.ask("/api/embed", input=TEXTS, model=names[0], prompt="title: ")
    assert_rows(prefixed["embeddings"], builtin.ask("/embed", inputs=TEXTS, prompt="title: "))


def test_huggingface_inference_client(builtin, rows, served):
    from huggingface_hub import InferenceClient

    client = InferenceClient(builtin.url())
    assert_rows(client.feature_extraction(TEXTS), rows)
    assert_rows(client.feature_extraction(QUERY, normalize=True, truncate=True, truncation_direction="Right"),
                builtin.ask("/embed", inputs=QUERY))
    cosines = client.sentence_similarity(QUERY, other_sentences=TEXTS)
    assert_close(cosines, builtin.ask("/similarity", inputs={"source_sentence": QUERY, "sentences": TEXTS}), ROUNDING)

    classifier = served("qwen3-seqcls-tiny", "--radix-mlp-threshold", "1")
    for raw in (False, True):
        got = InferenceClient(classifier.url()).text_classification(
            QUERY, top_k=2, function_to_apply="none" if raw else None)
        want = classifier.ask("/predict", inputs=QUERY, raw_scores=raw)[:2]
        assert [item.label for item in got] == [item["label"] for item in want]
        assert_close([item.score for item in got], [item["score"] for item in want], ROUNDING)
    # Without `parameters` the route responds like /predict.
    assert classifier.ask("/", inputs=QUERY) == classifier.ask("/predict", inputs=QUERY)


def test_langchain_openai(builtin, rows):
    from langchain_openai import OpenAIEmbeddings

    # Its token counter would download OpenAI's vocabularies.
    embeddings = OpenAIEmbeddings(model=MODEL, base_url=builtin.url("/v1"), api_key="none",
                                  check_embedding_ctx_length=False)
    assert_rows(embeddings.embed_documents(TEXTS), rows)
    assert_rows([embeddings.embed_query(TEXTS[0])], rows[:1])


def test_langchain_huggingface(builtin, rows):
    from huggingface_hub import InferenceClient
    from langchain_huggingface import HuggingFaceEndpointEmbeddings

    # This version accepts only hub model names; its client is a field that can be replaced by one with a URL.
    embeddings = HuggingFaceEndpointEmbeddings(model="prefold/prefold-mini", huggingfacehub_api_token="none")
    embeddings.client = InferenceClient(builtin.url())
    assert_rows(embeddings.embed_documents(TEXTS), rows)
    assert_rows([embeddings.embed_query(TEXTS[0])], rows[:1])


def test_llama_index(builtin, rows, ranking):
    from llama_index.core.schema import NodeWithScore, TextNode
    from llama_index.embeddings.text_embeddings_inference import TextEmbeddingsInference
    from llama_index.postprocessor.tei_rerank import TextEmbeddingInference as Rerank

    embeddings = TextEmbeddingsInference(model_name=MODEL, base_url=builtin.url(), text_instruction="",
                                         query_instruction="")
    assert_rows(embeddings.get_text_embedding_batch(TEXTS), rows)
    nodes = [NodeWithScore(node=TextNode(text=text, metadata={"i": i}, excluded_embed_metadata_keys=["i"]), score=0.0)
             for i, text in enumerate(TEXTS)]
    ranked = Rerank(base_url=builtin.url(), top_n=2).postprocess_nodes(nodes, query_str=QUERY)
    assert_ranking([(node.node.metadata["i"], node.score) for node in ranked], ranking[:2])


def test_encoders(served):
    """The same clients with an encoder and a cross-encoder, whose queries and documents are pairs."""
    import openai
    from huggingface_hub import InferenceClient
    from langchain_openai import OpenAIEmbeddings
    from llama_index.core.schema import NodeWithScore, TextNode
    from llama_index.embeddings.text_embeddings_inference import TextEmbeddingsInference
    from llama_index.postprocessor.tei_rerank import TextEmbeddingInference as Rerank

    embedder, reranker = served("bert-mean-tiny"), served("xlm-roberta-reranker-tiny")
    rows = embedder.ask("/embed", inputs=TEXTS)
    client = openai.OpenAI(base_url=embedder.url("/v1"), api_key="none", max_retries=0)
    assert_rows([item.embedding for item in client.embeddings.create(model=MODEL, input=TEXTS).data], rows)
    chain = OpenAIEmbeddings(model=MODEL, base_url=embedder.url("/v1"), api_key="none", check_embedding_ctx_length=False)
    assert_rows(chain.embed_documents(TEXTS), rows)
    index = TextEmbeddingsInference(model_name=MODEL, base_url=embedder.url(), text_instruction="", query_instruction="")
    assert_rows(index.get_text_embedding_batch(TEXTS), rows)
    assert_rows(InferenceClient(embedder.url()).feature_extraction(TEXTS), rows)

    scores = {item["index"]: item["score"] for item in reranker.ask("/rerank", query=QUERY, texts=TEXTS)}
    nodes = [NodeWithScore(node=TextNode(text=text, metadata={"i": i}, excluded_embed_metadata_keys=["i"]), score=0.0)
             for i, text in enumerate(TEXTS)]
    ranked = Rerank(base_url=reranker.url(), top_n=2).postprocess_nodes(nodes, query_str=QUERY)
    assert_ranking([(node.node.metadata["i"], node.score) for node in ranked],
                   sorted(scores.items(), key=lambda item: -item[1])[:2])


def test_litellm_embedding(builtin, rows):
    import litellm

    for form in ("float", "base64"):
        answer = litellm.embedding(model=f"openai/{MODEL}", input=TEXTS, api_base=builtin.url("/v1"), api_key="none",
                                   encoding_format=form)
        if form == "float":
            assert_rows([item["embedding"] for item in answer.data], rows)
        assert answer.usage.prompt_tokens > 0


@pytest.mark.parametrize("provider, path", [
    ("cohere", "/v2/rerank"), ("jina_ai", "/v1/rerank"), ("infinity", ""), ("hosted_vllm", "/v1/rerank"), ("voyage", "/v1/rerank"),
])
def test_litellm_rerank(builtin, ranking, provider, path):
    import litellm

    answer = litellm.rerank(model=f"{provider}/{MODEL}", query=QUERY, documents=TEXTS, top_n=2, return_documents=False,
                            api_base=builtin.url(path), api_key="none")
    assert_ranking([(result["index"], result["relevance_score"]) for result in answer.results], ranking[:2])

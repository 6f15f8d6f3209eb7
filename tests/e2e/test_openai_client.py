"""/v1/embeddings with the official client."""

import array
import base64
import sys

import openai
import pytest

from reference import assert_close, norm, normalized

TEXT = "How do I restart a service after a crash?"
TEXTS = [TEXT, "Set Restart=on-failure in the unit file.", "A dog runs across a field."]
ROUNDING = 1e-6


@pytest.fixture(scope="module")
def client(builtin):
    return openai.OpenAI(base_url=builtin.url("/v1"), api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def model(client, builtin):
    return builtin.get("/info").json()["model_id"]


@pytest.fixture(scope="module")
def rows(builtin):
    return builtin.ask("/embed", inputs=TEXTS)


def ids(builtin, texts):
    return [[token["id"] for token in row] for row in builtin.ask("/tokenize", inputs=texts)]


def decode(data):
    values = array.array("f", base64.b64decode(data, validate=True))
    if sys.byteorder == "big":
        values.byteswap()
    return values.tolist()


@pytest.mark.parametrize("form", ["default", "float", "base64"])
def test_a_list_of_texts_in_every_encoding(client, model, rows, form):
    options = {} if form == "default" else {"encoding_format": form}
    answer = client.embeddings.create(model=model, input=TEXTS, **options)
    assert (answer.object, answer.model, len(answer.data)) == ("list", model, len(TEXTS))
    for i, (item, row) in enumerate(zip(answer.data, rows, strict=True)):
        assert (item.object, item.index) == ("embedding", i)
        got = decode(item.embedding) if form == "base64" else item.embedding
        assert_close(got, row, ROUNDING)


def test_every_kind_of_input(client, model, builtin, rows):
    token_ids = ids(builtin, TEXTS)
    for given, count in [(TEXT, 1), ([TEXT], 1), (token_ids[0], 1), (token_ids, 3)]:
        answer = client.embeddings.create(model=model, input=given)
        assert len(answer.data) == count
        for item, row in zip(answer.data, rows):
            assert_close(item.embedding, row, ROUNDING)


def test_dimensions_cut_and_normalise_again(client, model, rows):
    answer = client.embeddings.create(model=model, input=TEXTS, dimensions=64)
    for item, row in zip(answer.data, rows, strict=True):
        assert norm(item.embedding) == pytest.approx(1.0, abs=1e-5)
        assert_close(item.embedding, normalized(row[:64]), ROUNDING)


def test_usage_counts_tokens(client, model, builtin):
    answer = client.embeddings.create(model=model, input=TEXTS)
    tokens = sum(map(len, ids(builtin, TEXTS)))
    assert (answer.usage.prompt_tokens, answer.usage.total_tokens) == (tokens, tokens)


def test_errors_are_the_clients_own(client, model):
    with pytest.raises(openai.BadRequestError) as caught:
        client.embeddings.create(model=model, input=TEXT, dimensions=100_000)
    assert caught.value.param == "dimensions" and "dimensions" in caught.value.message
    with pytest.raises(openai.BadRequestError):
        client.embeddings.create(model=model, input=TEXT, encoding_format="hex")
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nothing/here")


def test_a_key_is_taken_from_the_client(servers):
    server = servers("--api-key", "sesame-51b7")
    def embed(key):
        return openai.OpenAI(base_url=server.url("/v1"), api_key=key, max_retries=0).embeddings.create(model="m", input=TEXT)
    assert len(embed("sesame-51b7").data) == 1
    with pytest.raises(openai.AuthenticationError):
        embed("wrong")

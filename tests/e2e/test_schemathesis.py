"""Short form of `make schemathesis`: generated requests get responses that match the OpenAPI description."""

import conformance
import pytest


@pytest.mark.parametrize("model", conformance.MODELS)
def test_answers_are_those_described(model):
    result = conformance.run(model, examples=5)
    assert result["exit_code"] == 0 and not result["failures"] and not result["errors"], result["output"]
    assert result["operations"]["tested"] == result["operations"]["total"] > 20, result["operations"]
    # Minimum number of cases from a schema's limits, so that an empty run fails.
    assert result["cases"] > 500 and result["requests_counted_by_the_server"] >= result["cases"] / 2, result["cases"]

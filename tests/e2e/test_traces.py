"""Traces received by a collector, under the client's own trace."""

import http.server
import threading

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse

from harness import FIXTURES, Server, run_to_end

TRACE_ID, SPAN_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TEXTS = ["the same beginning and one end", "the same beginning and another end"]


class Collector:
    """Receives spans by OTLP over HTTP."""

    def __init__(self):
        self.requests = []
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.requests.append((self.path, self.headers["content-type"], body))
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def resources(self):
        for path, content_type, body in self.requests:
            assert (path, content_type) == ("/v1/traces", "application/x-protobuf")
            yield from ExportTraceServiceRequest.FromString(body).resource_spans

    def spans(self):
        return [span for resource in self.resources() for scope in resource.scope_spans for span in scope.spans]


def attributes(span):
    return {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in span.attributes}


def children(spans, parent):
    return sorted((span for span in spans if span.parent_span_id == parent.span_id),
                  key=lambda span: span.start_time_unix_nano)


def traced(collector, *args):
    # A stopping server sends all its spans, so the test need not wait.
    return Server("--model-id", FIXTURES / "qwen3-tiny", "--radix-mlp-threshold", "1",
                  "--otlp-endpoint", collector.url, *args)


def test_a_request_is_followed_from_the_client_to_the_model():
    with Collector() as collector:
        with traced(collector, "--otlp-service-name", "embedder") as server:
            response = server.post("/v1/embeddings", {"input": TEXTS},
                                   {"traceparent": f"00-{TRACE_ID}-{SPAN_ID}-01"})
            assert response.status == 200
            server.get("/health")
            server.get("/metrics")
        (service,) = {item.value.string_value for resource in collector.resources()
                      for item in resource.resource.attributes if item.key == "service.name"}
        assert service == "embedder"
        spans = collector.spans()
        assert {span.trace_id.hex() for span in spans} == {TRACE_ID}
        (request,) = [span for span in spans if span.parent_span_id.hex() == SPAN_ID]
        assert request.name == "POST /v1/embeddings" and request.kind == request.SPAN_KIND_SERVER
        told = attributes(request)
        tokens = int(response.headers["x-compute-tokens"])
        computed = int(response.headers["x-compute-compact-tokens"])
        assert (told["http.response.status_code"], told["tokens"], told["computed_tokens"]) == (200, tokens, computed)
        assert computed < tokens

        tokenize, queue, forward = children(spans, request)
        assert [span.name for span in (tokenize, queue, forward)] == ["tokenize", "queue", "forward"]
        assert attributes(tokenize)["inputs"] == 2
        assert {span.name for span in children(spans, queue)} == {"plan"}
        told = attributes(forward)
        assert (told["sequences"], told["total_tokens"], told["unique_tokens"]) == (2, tokens, computed)
        # The spans follow each other within the request.
        edges = [request.start_time_unix_nano, tokenize.start_time_unix_nano, tokenize.end_time_unix_nano,
                 queue.start_time_unix_nano, queue.end_time_unix_nano, forward.start_time_unix_nano,
                 forward.end_time_unix_nano, request.end_time_unix_nano]
        assert edges == sorted(edges)


def test_each_request_of_a_batch_has_the_batch_in_its_own_trace():
    with Collector() as collector:
        with traced(collector) as server:
            threads = [threading.Thread(target=server.ask, args=("/embed",), kwargs={"inputs": f"{text} {i}"})
                       for i in range(4) for text in TEXTS]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        spans = collector.spans()
        requests = [span for span in spans if span.name == "POST /embed"]
        assert len({span.trace_id for span in requests}) == 8
        for request in requests:
            (forward,) = [span for span in children(spans, request) if span.name == "forward"]
            assert forward.trace_id == request.trace_id
        batches = {}
        for span in spans:
            if span.name == "forward":
                batches.setdefault(attributes(span)["batch"], []).append(span)
        for members in batches.values():
            assert all(attributes(span)["sequences"] == len(members) for span in members)


def test_the_client_decides_what_is_recorded_and_errors_are_told():
    with Collector() as collector:
        with traced(collector, "--disable-spans") as server:
            unsampled = {"traceparent": f"00-{TRACE_ID}-{SPAN_ID}-00"}
            assert server.post("/embed", {"inputs": "Hi"}, unsampled).status == 200
            assert server.post("/embed", {"inputs": []}, {"traceparent": "nonsense"}).status == 400
        (request,) = collector.spans()
        assert request.trace_id.hex() != TRACE_ID and not request.parent_span_id
        assert attributes(request)["http.response.status_code"] == 400
        assert "has no items" in attributes(request)["error.message"]


def test_a_collector_that_is_away_harms_nobody():
    with Server("--model-id", FIXTURES / "qwen3-tiny", "--otlp-endpoint", "http://127.0.0.1:9") as server:
        assert server.post("/embed", {"inputs": "Hi"}).status == 200
        server.terminate()
        assert server.wait() == 0
        (line,) = [line for line in server.log().splitlines() if " WARN " in line or " ERROR " in line]
        assert "traces are lost" in line and "http://127.0.0.1:9/v1/traces" in line


@pytest.mark.parametrize("url", ["localhost:4318", "grpc://localhost:4317"])
def test_an_endpoint_that_is_none_is_refused(url):
    status, output = run_to_end("--otlp-endpoint", url)
    assert status == 2 and "--otlp-endpoint" in output, output

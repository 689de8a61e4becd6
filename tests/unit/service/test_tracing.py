"""Spans, and where they are sent."""

from __future__ import annotations

import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.trace import StatusCode

from catalog_ext.metastore.errors import InvalidConfigurationError
from catalog_ext.metastore.runtime.tracing import current_traceparent, serving, span
from catalog_ext.service import request_metrics
from tests.kit.spans import recorded_spans

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.slow
def test_without_opentelemetry_nothing_is_loaded_and_nothing_done() -> None:
    program = (
        "import sys\n"
        "from catalog_ext.metastore.runtime.tracing import current_traceparent, serving, span\n"
        "import catalog_ext.catalog\n"
        f"with serving('x', {{'traceparent': {PARENT!r}}}), span('y', rows=1):\n"
        "    loaded = [m for m in sys.modules if m.startswith(('opentelemetry', 'prometheus_client'))]\n"
        "    print(current_traceparent(), loaded)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["None", "[]"]


def failing() -> None:
    with serving("tables/plan", {"traceparent": PARENT}), span("y", rows=3):
        assert current_traceparent() is not None
        raise ValueError("why")


def test_request_span_is_a_child_of_its_header_and_marks_failures() -> None:
    with recorded_spans() as spans:
        with pytest.raises(ValueError, match="why"):
            failing()
        inner, outer = spans.get_finished_spans()
    assert outer.parent is not None
    assert trace.format_trace_id(outer.context.trace_id) == PARENT.split("-")[1]
    assert trace.format_span_id(outer.parent.span_id) == PARENT.split("-")[2]
    assert (inner.parent, dict(inner.attributes or {})) == (outer.context, {"catalog_ext.rows": 3})
    assert inner.status.status_code is StatusCode.ERROR


@pytest.mark.parametrize("header", ["", "nonsense", f"{PARENT}\u00e9", "00-0-0-0"])
def test_malformed_header_begins_a_new_trace(header: str) -> None:
    with recorded_spans() as spans:
        with serving("x", {"traceparent": header}):
            pass
        (found,) = spans.get_finished_spans()
    assert found.parent is None


def test_the_environment_says_whether_traces_are_sent() -> None:
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
    assert not request_metrics.are_wanted({})
    assert request_metrics.are_wanted(endpoint)
    assert request_metrics.are_wanted({"OTEL_TRACES_EXPORTER": "otlp"})
    assert not request_metrics.are_wanted({**endpoint, "OTEL_TRACES_EXPORTER": "none"})
    assert not request_metrics.are_wanted({**endpoint, "OTEL_SDK_DISABLED": "true"})
    with pytest.raises(InvalidConfigurationError, match="zipkin"):
        request_metrics.are_wanted({"OTEL_TRACES_EXPORTER": "zipkin"})


@pytest.mark.slow
def test_spans_are_sent_to_a_collector_by_its_protocol() -> None:
    taken: list[ExportTraceServiceRequest] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                import gzip

                body = gzip.decompress(body)
            taken.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    program = (
        "import os\n"
        "from catalog_ext.metastore.runtime.tracing import span\n"
        "from catalog_ext.service.request_metrics import sent\n"
        "with sent(os.environ), span('commit', table='s.t'):\n"
        "    pass"
    )
    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{server.server_port}"}
        subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=60)
        server.shutdown()
    (resource,) = taken[0].resource_spans
    names = {a.key: a.value.string_value for a in resource.resource.attributes}
    assert names["service.name"] == "catalog-ext"
    ((found,),) = [scope.spans for scope in resource.scope_spans]
    assert found.name == "commit"
    assert {a.key: a.value.string_value for a in found.attributes} == {"catalog_ext.table": "s.t"}

"""Tests without a collector, or without the packages for traces."""

import re
import sys

import pytest

from anyreplica import Settings
from anyreplica.features.tracing import feature as tracing
from anyreplica.settings import misspelt
from anyreplica.settings.errors import StartupError
from conftest import run
from tests.starts import start

_IMPORTS = """
import sys
from contextlib import nullcontext
from anyreplica.process.lifecycle import Lifecycle
from server.server import create_app
create_app().compose(Lifecycle(0), nullcontext())
print([name for name in sys.modules if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter", "requests"))])
"""


@pytest.mark.servers
def test_without_a_collector_the_sdk_is_not_imported() -> None:
    """Without a collector, the SDK is not imported, because the import takes 0.2 s of a start."""
    ended = run(sys.executable, "-c", _IMPORTS)
    assert (ended.returncode, ended.stdout.strip()) == (0, "[]"), ended.stderr


def test_missing_packages_stop_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing packages stop the start with one line that says what to install."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    monkeypatch.delitem(sys.modules, "anyreplica.features.tracing.export", raising=False)
    monkeypatch.delattr("anyreplica.features.tracing.export", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    with pytest.raises(StartupError, match=r"EXTRAS=traces, or run pip install opentelemetry-sdk") as caught:
        tracing.check(Settings.load())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", ["collector:4318", "http://", "ftp://collector", "http://[::1"])
def test_an_invalid_address_of_the_collector_stops_the_start(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """An invalid address stops the start, and the error names the variable."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", value)
    with pytest.raises(StartupError, match=f"^OTEL_EXPORTER_OTLP_ENDPOINT={re.escape(value)}: "):
        Settings.load()


@pytest.mark.parametrize("arguments", [("check",), ("worker",)])
def test_an_unsupported_protocol_stops_the_start(arguments: tuple[str, ...]) -> None:
    """An unsupported protocol stops the start of a replica and of a worker with one line."""
    settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    ended = start(*arguments, **settings)
    told = "OTEL_EXPORTER_OTLP_PROTOCOL=grpc: protocol not supported; set http/protobuf\n"
    assert (ended.returncode, ended.stderr) == (3, told)


@pytest.mark.parametrize("given", ["hush", "a b=hush", "x=1,hush"])
def test_invalid_headers_are_not_shown(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    """The error for invalid headers does not show them, because they may contain a password."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", given)
    refused = "^OTEL_EXPORTER_OTLP_HEADERS: not a list of headers; write it like name=value"
    with pytest.raises(StartupError, match=refused) as caught:
        Settings.load()
    assert "hush" not in str(caught.value)


def test_headers_as_the_sdk_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers may be percent-encoded or not, as for the SDK."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20a=b, X-Tenant=one two,")
    assert Settings.load().otel_headers == {"authorization": "Basic a=b", "X-Tenant": "one two"}


def test_the_sdks_own_variables_are_no_misspelt_ones() -> None:
    """The SDK's own variables do not count as misspelt ones, although they look similar."""
    variables = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "x", "OTEL_EXPORTER_OTLP_ENDPOINTS": "x"}
    assert misspelt(variables, Settings.model_construct()) == []

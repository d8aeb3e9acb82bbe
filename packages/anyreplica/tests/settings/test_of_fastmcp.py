"""Tests of FastMCP's own variables: those that a replica obeys, and those that a warning names."""

import subprocess
import sys
from pathlib import Path

import fastmcp
import pytest

from anyreplica import Settings
from anyreplica.settings import of_fastmcp
from conftest import environment

_IN_FASTMCP = {"client_log_level", "deprecation_warnings", "home", "mcp_camelcase_compat", "oauth_encryption_key"}
_IN_FASTMCP |= {"mounted_components_raise_on_load_error", "ssrf_trust_proxy", "strict_input_validation"}
_IN_FASTMCP |= {"mask_error_details", "telemetry_mode", "test_mode"}
_CLIENT = {"client_disconnect_timeout", "client_init_timeout", "client_raise_first_exceptiongroup_error"}
_BANNER = {"check_for_updates", "enable_rich_logging", "enable_rich_tracebacks", "show_server_banner"}
_SSE = {"message_path", "sse_path", "transport"}
_OTHERS = {"http_session_idle_timeout", "server_dependencies"}


def fastmcp_reads(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    """Let FastMCP read these variables."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(fastmcp, "settings", type(fastmcp.settings)())


def test_every_setting_of_fastmcp_is_known() -> None:
    """A replica obeys it, FastMCP itself does, a warning names it, or it changes nothing in a server over HTTP."""
    known = {*of_fastmcp.OBEYED, *of_fastmcp.INSTEAD, *_IN_FASTMCP, *_CLIENT, *_BANNER, *_SSE, *_OTHERS}
    assert set(type(fastmcp.settings).model_fields) == known


@pytest.mark.parametrize(
    ("theirs", "ours", "field", "expected"),
    [
        ("FASTMCP_HOST=0.0.0.0", "", "mcp_host", "0.0.0.0"),
        ("FASTMCP_PORT=9000", "", "mcp_port", 9000),
        ("FASTMCP_STREAMABLE_HTTP_PATH=/api/", "", "mcp_path", "/api"),
        ("fastmcp_port=9000", "MCP_PORT=", "mcp_port", 9000),
        ("FASTMCP_LOG_LEVEL=debug", "", "log_level", "DEBUG"),
        ('FASTMCP_HTTP_ALLOWED_HOSTS=["a.example","*.b.example"]', "", "allowed_hosts", ("a.example", "*.b.example")),
        ('FASTMCP_HTTP_ALLOWED_ORIGINS=["https://a.example"]', "", "allowed_origins", ("https://a.example",)),
        ('FASTMCP_HTTP_ALLOWED_HOSTS=["a.example"]', "ALLOWED_HOSTS=b.example", "allowed_hosts", ("b.example",)),
        ("FASTMCP_PORT=9000", "MCP_PORT=9001", "mcp_port", 9001),
        ("FASTMCP_PORT=9000", "SECRET", "mcp_port", 9002),
    ],
)
def test_settings_of_fastmcps_http_server_are_defaults(
    monkeypatch: pytest.MonkeyPatch, secrets: Path, theirs: str, ours: str, field: str, expected: object
) -> None:
    """Our own variables and secrets override them."""
    fastmcp_reads(monkeypatch, **dict([theirs.split("=")]))
    if ours == "SECRET":
        (secrets / "mcp_port").write_text("9002")
    elif ours:
        monkeypatch.setenv(*ours.split("="))
    assert getattr(Settings.load(), field) == expected


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ("FASTMCP_TRANSPORT=sse", "FASTMCP_TRANSPORT=sse has no effect; clients must use HTTP (POST /mcp)."),
        ("FASTMCP_TRANSPORT=http", ""),
        ("FASTMCP_STATELESS_HTTP=false", "FASTMCP_STATELESS_HTTP has no effect; set STATELESS_HTTP instead."),
        ("FASTMCP_STATELESS_HTTP=true", ""),
        ("FASTMCP_STATELESS_HTTP=false STATELESS_HTTP=true", ""),
        ("FASTMCP_JSON_RESPONSE=true", "FASTMCP_JSON_RESPONSE has no effect; set JSON_RESPONSE instead."),
        ("FASTMCP_MASK_ERROR_DETAILS=false", ""),
        ("FASTMCP_HTTP_HOST_ORIGIN_PROTECTION=true", "FASTMCP_HTTP_HOST_ORIGIN_PROTECTION has no effect; set ALLOWED_"),
        (
            "FASTMCP_HTTP_SESSION_IDLE_TIMEOUT=60",
            "FASTMCP_HTTP_SESSION_IDLE_TIMEOUT has no effect; set HANDSHAKE_SESSION_SECONDS instead.",
        ),
        ("FASTMCP_STRICT_INPUT_VALIDATION=true FASTMCP_PORT=1 FASTMCP_SSE_PATH=/x", ""),
    ],
)
def test_a_variable_without_effect_is_named(monkeypatch: pytest.MonkeyPatch, variables: str, expected: str) -> None:
    """A variable causes a warning if a replica does not do what it asks for, and if our own variable is not set."""
    fastmcp_reads(monkeypatch, **dict(each.split("=") for each in variables.split()))
    told = of_fastmcp.without_effect(Settings.load())
    assert len(told) == (1 if expected else 0)
    assert "".join(told).startswith(expected)


@pytest.mark.servers  # FastMCP reads its settings when a process imports it
@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        ("FASTMCP_PORT=x", 3, "FASTMCP_PORT: input should be a valid integer, unable to parse string as an integer"),
        ("FASTMCP_PORT=0", 3, "FASTMCP_PORT=0: must be greater than or equal to 1"),
        ("FASTMCP_DEBUG=true", 0, "Warning: FASTMCP_DEBUG has no effect; set DEBUG_ERRORS instead."),
    ],
)
def test_a_command_reads_the_file_env(tmp_path: Path, line: str, code: int, told: str) -> None:
    """FastMCP reads `.env` in the working directory. A wrong value is one line, which names FastMCP's variable."""
    (tmp_path / ".env").write_text(line)
    (tmp_path / "shop.py").write_text("from fastmcp import FastMCP\n\nmcp = FastMCP('shop')\n")
    command = [sys.executable, "-m", "anyreplica", "check", "shop.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == code
    (told_line,) = done.stderr.splitlines()
    assert told_line == told

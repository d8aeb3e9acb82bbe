"""Tests of the sources of settings and of invalid values."""

import ast
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, SecretStr

from anyreplica import Settings
from anyreplica.settings import misspelt
from anyreplica.settings.errors import StartupError
from conftest import SOURCE, environment


def test_every_setting_is_described() -> None:
    """Each setting has a description."""
    assert all(field.description for field in Settings.model_fields.values())


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("MCP_PORT", "9000", "mcp_port", 9000),
        ("MCP_NAME", "sales.mcp-1", "mcp_name", "sales.mcp-1"),
        ("AUTO_DISCOVER", "no", "auto_discover", False),
        ("LOG_LEVEL", "debug", "log_level", "DEBUG"),
        ("LOG_LEVEL", "warn", "log_level", "WARNING"),  # as Python's logging: access_log.py compares these names
        ("LOG_LEVEL", "FATAL", "log_level", "CRITICAL"),
        ("MCP_COMPONENTS", "server, examples.sales,", "mcp_components", ("server", "examples.sales")),
        ("ALLOWED_HOSTS", "mcp.example.com,*.internal", "allowed_hosts", ("mcp.example.com", "*.internal")),
        ("MCP_PORT", "", "mcp_port", 8150),
    ],
)
def test_a_variable_sets_its_setting(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, field: str, expected: object
) -> None:
    """A variable in capitals sets its setting. Commas separate lists, and an empty value counts as unset."""
    monkeypatch.setenv(name, value)
    assert getattr(Settings.load(), field) == expected


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("MCP_PORT", "http", "MCP_PORT=http: must be a whole number"),
        ("MCP_PORT", "0", "MCP_PORT=0: must be greater than or equal to 1"),
        ("MCP_PORT", "65536", "MCP_PORT=65536: must be less than or equal to 65535"),
        ("MCP_NAME", "two words", "MCP_NAME=two words: use 1 to 64 letters, digits"),
        ("MCP_NAME", "-x", "MCP_NAME=-x: use 1 to 64 letters, digits"),
        ("REPLICA_NAME", "a\nb", "REPLICA_NAME='a\\nb': use at most 128 letters, digits"),
        ("TRUSTED_PROXIES", "proxy", "TRUSTED_PROXIES=proxy: 'proxy' does not appear to be an IPv4 or IPv6"),
        ("TRUSTED_PROXIES", "10.0.0.1/8", "TRUSTED_PROXIES=10.0.0.1/8: "),
        ("TRUSTED_PROXIES", "10.0.0.0/99", "TRUSTED_PROXIES=10.0.0.0/99: "),
        ("LOG_LEVEL", "loud", "LOG_LEVEL=LOUD: must be 'DEBUG', 'INFO', 'WARNING', 'WARN', 'ERROR', "),
        ("EVENT_LOOP", "trio", "EVENT_LOOP=trio: must be 'uvloop' or 'asyncio'"),
        ("LOG_FORMAT", "xml", "LOG_FORMAT=xml: must be 'text' or 'json'"),
        ("STATELESS_HTTP", "maybe", "STATELESS_HTTP=maybe: must be true or false"),
        ("MCP_COMPONENTS", "server,../etc", "MCP_COMPONENTS=server,../etc: '../etc' is not the name of a package"),
        ("AUTH_ENABLED", "true", "AUTH_TOKEN, API_KEYS_FILE or AUTH_JWT_ISSUER: required by AUTH_ENABLED=true"),
        ("DRAIN_SECONDS", "-1", "DRAIN_SECONDS=-1: must be greater than or equal to 0"),
        ("DRAIN_SECONDS", "inf", "DRAIN_SECONDS=inf: "),  # a drain must end
        ("DRAIN_SECONDS", "nan", "DRAIN_SECONDS=nan: "),
        ("SECRETS_DIR", "/no/such/folder", "SECRETS_DIR=/no/such/folder: no such folder"),
    ],
)
def test_a_wrong_value_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, name: str, value: str, says: str) -> None:
    """An invalid value causes one line with the variable, its value and the expected value."""
    monkeypatch.setenv(name, value)
    with pytest.raises(StartupError) as refusal:
        Settings.load()
    assert str(refusal.value).startswith(says)
    assert "\n" not in str(refusal.value)


def test_every_refusal_begins_with_a_variables_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each refusal begins with the name of the wrong variable, or of another variable that the wrong one needs."""
    variables = {name.upper() for name in Settings.model_fields}
    named = {}
    for name in variables:
        for value in ("?", "-1", "0", "a,,b c", "x=y", "ü" * 200):
            monkeypatch.setenv(name, value)
            try:
                Settings.load()
            except StartupError as refusal:
                named[name, value] = re.split("[=:]", str(refusal))[0]
        monkeypatch.delenv(name)
    assert set(named.values()) <= variables
    assert len({name for name, _ in named}) > 50


def test_no_text_of_the_server_misspells_a_setting() -> None:
    """Each word in capitals in the server's texts is a setting, or is not similar to a setting."""
    words = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                words |= set(re.findall(r"\b[A-Z][A-Z0-9_]+\b", node.value))
    assert words > {"AUDIT_KEY", "MCP_PORT"}
    words.discard("AUTH_ENABLE")  # the example of a misspelt setting
    assert misspelt(dict.fromkeys(words, ""), Settings.model_construct()) == []


@pytest.mark.parametrize("name", ["AUTH_TOKEN", "auth_token"])
def test_a_secret_file_sets_a_setting(monkeypatch: pytest.MonkeyPatch, secrets: Path, name: str) -> None:
    """A secret file, with or without a newline at its end, sets a setting that the environment does not set."""
    (secrets / name).write_text("s3cret\n")
    (secrets / "mcp_port").write_text("9000")
    monkeypatch.setenv("AUTH_ENABLED", "true")
    settings = Settings.load()
    assert settings.auth_token is not None
    assert settings.auth_token.get_secret_value() == "s3cret"
    assert settings.mcp_port == 9000
    assert "s3cret" not in repr(settings)
    monkeypatch.setenv("MCP_PORT", "9001")
    assert Settings.load().mcp_port == 9001


@pytest.mark.parametrize("token", ["two words", "ümlaut", "tab\there"])
def test_a_token_that_no_header_can_carry_is_refused(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    """A token that no header can carry is refused, and the refusal does not show it."""
    monkeypatch.setenv("AUTH_TOKEN", token)
    with pytest.raises(StartupError) as refusal:
        Settings.load()
    assert str(refusal.value).startswith("AUTH_TOKEN: use one or more visible ASCII")
    assert token not in str(refusal.value)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40))
def test_any_port_is_a_number_or_refused_in_one_line(text: str) -> None:
    """Any text in MCP_PORT is a valid number or is refused with one line."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MCP_PORT", text)
        try:
            said = f"MCP_PORT={Settings.load().mcp_port}"
        except StartupError as refusal:
            said = str(refusal)
        assert said.startswith("MCP_PORT=")
        assert len(said.splitlines()) == 1


def test_a_binary_secret_file_is_refused(secrets: Path) -> None:
    """A secret file that is not text is refused with its folder and the reason."""
    (secrets / "auth_token").write_bytes(b"\xff\xfe")
    with pytest.raises(StartupError, match=f"^{secrets}: a secret in this folder cannot be read as text: "):
        Settings.load()


class _More(Settings):
    needed: str = Field(description="A setting without a default.")
    other: int = Field(1, validation_alias="ANOTHER_NAME")


def test_each_missing_or_wrong_setting_gets_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each missing or wrong setting gets a line, which shows no other setting, as pydantic's error would."""
    monkeypatch.setenv("AUTH_TOKEN", "super-secret-token-of-forty-characters..")
    monkeypatch.setenv("ANOTHER_NAME", "x")
    with pytest.raises(StartupError) as refused:
        _More.load()
    assert str(refused.value).splitlines() == ["NEEDED: required; set it", "ANOTHER_NAME: must be a whole number"]


def test_doubtful_combinations_cause_warnings() -> None:
    """Combinations of settings that are probably wrong cause warnings."""
    assert list(Settings().doubts()) == []
    assert "AUTH_ENABLED" in next(Settings(auth_token=SecretStr("x")).doubts())


def test_stateless_http_false_is_another_name() -> None:
    """STATELESS_HTTP=false has the meaning and the requirements of HANDSHAKE_SESSIONS=full."""
    assert Settings(stateless_http=False).handshake_sessions == "full"
    with pytest.raises(ValueError, match="REDIS_URL: required by STATELESS_HTTP=false with MCP_REPLICAS=3"):
        Settings(stateless_http=False, mcp_replicas=3, request_state_keys=SecretStr("k" * 32))
    with pytest.raises(ValueError, match=r"REDIS_URL: required by HANDSHAKE_SESSIONS=ask with REPLICAS_DNS=tasks\.mcp"):
        Settings(handshake_sessions="ask", replicas_dns="tasks.mcp")
    with pytest.raises(ValueError, match="HANDSHAKE_SESSIONS=ask: STATELESS_HTTP=false asks for full"):
        Settings(stateless_http=False, handshake_sessions="ask")
    with pytest.raises(ValueError, match="STATELESS_HTTP=false: needs JSON_RESPONSE=auto or false"):
        Settings(stateless_http=False, json_response="true")


def test_a_misspelt_variable_is_noticed() -> None:
    """A misspelt variable causes a warning. AUTH_ENABLE=true, for example, would not enable authentication."""
    names = environment(AUTH_ENABLE="true", MCP_POORT="1", HOME="/", MCP_PORT="1")
    assert misspelt(names, Settings.model_construct()) == [
        "AUTH_ENABLE is not a setting and has no effect; did you mean AUTH_ENABLED?",
        "MCP_POORT is not a setting and has no effect; did you mean MCP_PORT?",
    ]

"""The file of the operator: a wrong file stops the start with one line, which shows no secret."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anyreplica.features.downstream.exchange.entry import read
from anyreplica.settings.errors import StartupError

TABLE = """\
token_url = "https://login.example.com/token"
client_id = "anyreplica"
client_secret_file = "secret"
"""
HOST = '["api.example.com"]\n'


def written(folder: Path, text: str, secret: bytes = b"hunter2\n") -> Path:
    """Write a file and the client's secret, and return the path of the file."""
    (folder / "secret").write_bytes(secret)
    path = folder / "tokens.toml"
    path.write_text(text)
    return path


def test_a_file(tmp_path: Path) -> None:
    """A file has one table for each host. A list may be written as one text."""
    names = {
        "api.example.com": "api.example.com",
        "B.example.com:443": "b.example.com",
        "bücher.example:8443": "xn--bcher-kva.example:8443",
        "[::1]:80": "[::1]",
        "127.0.0.1:8000": "127.0.0.1:8000",
        "orders": "orders",
    }
    path = written(tmp_path, "".join(f'["{host}"]\n{TABLE}audience = "a"\n' for host in names))
    found = read(path)
    assert list(found) == list(names.values())
    assert {each.secret.get_secret_value() for each in found.values()} == {"hunter2"}
    assert found["orders"].entry.audience == ("a",)


def test_a_secret_elsewhere(tmp_path: Path) -> None:
    """The secret may be in another folder, where an absolute path names it. Spaces belong to a secret."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "s").write_text(" hunter2 \r\n")
    table = TABLE.replace('"secret"', f'"{tmp_path}/run/s"')
    assert read(written(tmp_path, HOST + table))["api.example.com"].secret.get_secret_value() == " hunter2 "


WRONG: list[tuple[str, str]] = [
    ("", "contains no host; begin a table like"),
    ("x", "is not TOML: "),
    ("a = [" + "[" * 5000, "is not TOML: "),
    (f"[api.example.com]\n{TABLE}", 'api: a table in a table; write the host in quotes, like ["api.example.com"]'),
    (TABLE, "token_url: must be a table; the fields of a host follow a line like"),
    *(
        (f'["{host}"]\n{TABLE}', ": not a host; write it like api.example.com")
        for host in ("https://api.example.com", "a/b", "a@b", "*.example.com", "a b", "", "a:99999", "a:b", "a\\u0000")
    ),
    (f'{HOST}{TABLE}["API.example.com:443"]\n{TABLE}', "API.example.com:443: two tables name this host"),
    (HOST, "api.example.com, token_url: required; set it"),
    (HOST + TABLE + 'client_secret = "hunter2"', "client_secret: not a field; write the secret into a file"),
    (HOST + TABLE + 'scopes = "hunter2"', "scopes: not a field; the fields are token_url, grant, client_id"),
    (HOST + TABLE + 'grant = "hunter2"', "grant: must be 'token-exchange' or 'on-behalf-of'"),
    (HOST + TABLE + 'client_auth_method = "none"', "client_auth_method: must be 'client_secret_basic' or"),
    (HOST + TABLE + "audience = 1", "audience: must be a valid"),
    (HOST + TABLE + 'audience = ["a", ""]', "audience: "),
    (HOST + TABLE + 'resource = "orders"', "resource: must be an absolute URI without a fragment"),
    (HOST + TABLE + 'resource = ["https://a", "https://a#b"]', "resource: must be an absolute URI"),
    (HOST + TABLE + 'scope = "a  b"', "scope: must be scopes with one space between them"),
    (HOST + TABLE + 'scope = ["a"]', "scope: must be a valid string"),
    (HOST + TABLE + 'subject_token_type = "jwt"', "subject_token_type: must be an absolute URI"),
    (HOST + TABLE + 'allow_http = "yes"', "allow_http: must be a valid boolean"),
    (HOST + TABLE + 'grant = "on-behalf-of"', 'scope: required by grant = "on-behalf-of"'),
    (HOST + TABLE + 'grant = "on-behalf-of"\nscope = "a"\naudience = "b"', "audience: not possible with grant ="),
    *(
        (HOST + TABLE.replace("https://login.example.com/token", url), "token_url: must be a URL like https://login")
        for url in ("http://login.example.com/token", "login.example.com", "ftp://a", "https://", "https://a:b@c/", "")
    ),
    (HOST + TABLE.replace("https://login.example.com/token", "https://a/#b"), "token_url: must be a URL like"),
    (HOST + TABLE.replace("https://login.example.com/token", "http://127.0.0.1.example.com/"), "token_url: must be"),
    (HOST + TABLE.replace("https://login.example.com/token", "https://a:b/"), "token_url: must be"),
    (HOST + TABLE.replace("anyreplica", "é"), "client_id: must consist of printable ASCII characters"),
    (HOST + TABLE.replace('"secret"', '"nowhere"'), "client_secret_file: there is no such file"),
    (HOST + TABLE.replace('"secret"', '"hunter2, the secret itself"'), "client_secret_file: there is no such file"),
    (HOST + TABLE.replace('"secret"', '"."'), "client_secret_file: "),
    (HOST + TABLE.replace('"secret"', '"a\\u0000"'), "client_secret_file: "),
]


@pytest.mark.parametrize(("text", "why"), WRONG, ids=lambda value: ascii(value)[-40:])
def test_a_wrong_file(tmp_path: Path, text: str, why: str) -> None:
    """The line names the setting, the file, the host and the field, and contains no value of the file."""
    path = written(tmp_path, text)
    with pytest.raises(StartupError) as error:
        read(path)
    line = str(error.value)
    assert line.startswith(f"DOWNSTREAM_TOKENS_FILE: {path}")
    assert why in line
    assert line.isprintable()
    assert "hunter2" not in line


@pytest.mark.parametrize(
    "secret",
    [b"", b"\n", b"hunter2\nhunter3\n", b"hunter2\xff", "hunter2é".encode(), b"a" * 5000],
    ids=range(6),
)
def test_a_wrong_secret(tmp_path: Path, secret: bytes) -> None:
    """A client secret is one line of printable ASCII characters."""
    with pytest.raises(StartupError, match=r"api\.example\.com, client_secret_file: .*/secret ") as error:
        read(written(tmp_path, HOST + TABLE, secret))
    assert "hunter" not in str(error.value)


@pytest.mark.parametrize("content", [None, b"\xff"])
def test_a_file_that_cannot_be_read(tmp_path: Path, content: bytes | None) -> None:
    """A missing file, or a file that is not text, stops the start."""
    path = tmp_path / "tokens.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StartupError, match=f"DOWNSTREAM_TOKENS_FILE: {path} cannot be read: "):
        read(path)


NAMES = st.sampled_from(["token_url", "client_id", "client_secret_file", "audience", "resource", "scope", "grant", "x"])
VALUES = st.one_of(
    st.integers().map(str),
    st.booleans().map(lambda value: str(value).lower()),
    st.text("ab:/#?@é \\\"'\n[]", max_size=12).map(lambda text: "'''" + text.replace("'", "") + "'''"),
    st.just('["a", "b"]'),
)


@given(st.dictionaries(NAMES, VALUES, max_size=8), st.text("api.example:/[]\"'#@\n é", max_size=20))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_file_causes_another_error(tmp_path: Path, fields: dict[str, Any], host: str) -> None:
    """Whatever a file contains, it is read or refused with one printable line."""
    lines = [f"['{host}']", *(f"{name} = {value}" for name, value in fields.items())]
    try:
        read(written(tmp_path, "\n".join(lines)))
    except StartupError as error:
        line = str(error)
    else:
        return
    assert line.startswith("DOWNSTREAM_TOKENS_FILE: ")
    assert "\n" not in line

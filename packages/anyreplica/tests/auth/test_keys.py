"""The key file, and the command that makes and checks keys."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyreplica.features.keys.key import KeyEntry, KeyFileError, hash_of, read
from anyreplica.settings.rate import Rate
from conftest import free_port, run
from tests.starts import start

HASH = hash_of("k" * 40)


def written(folder: Path, *lines: str | dict[str, Any]) -> Path:
    """Write the entries to a key file and return its path."""
    file = folder / "api_keys"
    file.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return file


def keys(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command `keys` of the sample server."""
    return start("keys", *arguments, given=given)


def test_a_new_key_is_shown_once_and_only_its_hash_is_kept(tmp_path: Path) -> None:
    """`keys new` prints the entry, which has only the key's hash, to stdout, and the key to stderr, for a person."""
    made = keys("new", "ci", "--scope", "reports:read", "--tool", "sales_*", "--rate", "100/s", "--expires", "90d")
    assert made.returncode == 0, made.stderr
    key = made.stderr.split()[-1]
    assert key.startswith("mcp_")
    assert key not in made.stdout
    file = tmp_path / "api_keys"
    file.write_text(f"# of the build\n\n{made.stdout}")
    (entry,) = read(file)
    assert entry.hash == hash_of(key)
    assert (entry.id, entry.scopes, entry.tools, entry.rate) == ("ci", ("reports:read",), ("sales_*",), "100/s")
    assert keys("hash", given=f"{key}\n").stdout.strip() == entry.hash
    assert keys("check", "--key", str(file), given=key).stdout.splitlines()[1].startswith("ci  valid  ")
    assert keys("check", "--key", str(file), given="x" * 43).returncode == 1


@pytest.mark.smoke
@pytest.mark.servers
def test_the_command_in_its_own_process(tmp_path: Path) -> None:
    """`python -m … keys check` reports a problem in one line on stderr, and its exit code is 1.

    The other tests run the command in their own process, see `tests.starts`.
    """
    file = written(tmp_path, '{"id": "a"}')
    done = run(sys.executable, "-m", "server", "keys", "check", str(file))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr == keys("check", str(file)).stderr


def test_keys_new_makes_a_key_pair_for_signing(tmp_path: Path) -> None:
    """`keys new --signing` makes a key pair, and the entry has the public key."""
    made = keys("new", "robot", "--signing")
    assert "BEGIN PRIVATE KEY" in made.stderr
    (entry,) = read(written(tmp_path, made.stdout))
    assert entry.hash is None
    assert str(entry.public_key).startswith("ed25519:")


def test_check_lists_the_keys(tmp_path: Path) -> None:
    """`keys check` prints one line per key, with the key's state."""
    file = written(
        tmp_path,
        {"id": "old", "hash": HASH, "expires": "2026-01-01T00:00:00Z"},
        {"id": "coming", "hash": hash_of("x"), "not_before": "2999-01-01T00:00:00+01:00", "tools": []},
    )
    lines = keys("check", str(file)).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["id", "old", "coming"]
    assert "expired" in lines[1]
    assert "not yet valid" in lines[2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["new", "a b"], "id: must be 1 to 64 letters"),
        (["new", "x", "--rate", "often"], "rate: 'often' is not a rate"),
        (["new", "x", "--expires", "soon"], "'soon' is not a time"),
        (["new", "x", "--burst", "0"], "burst: input should be greater than or equal to 1"),
        (["new", "x", "--not-before", "2d", "--expires", "1d"], "expires must be later than not_before"),
        (["check", "/nowhere/api_keys"], "/nowhere/api_keys cannot be read: No such file or directory"),
        (["hash"], "can be guessed"),
    ],
)
def test_a_wrong_argument_gets_one_line(arguments: list[str], said: str) -> None:
    """A wrong argument gets one line on stderr and exit code 1."""
    done = keys(*arguments, given="short\n")
    assert done.returncode == 1
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "contains no key"),
        (["# nothing"], "contains no key"),
        (["s3cret"], "line 1: not a JSON object"),
        (["[" * 100_000], "line 1: not a JSON object"),
        (["[]"], "line 1: input should be"),
        ([{"id": "a"}], "line 1: has neither hash nor public_key"),
        ([{"id": "a", "hash": "s3cret"}], "line 1: hash: must be sha256:"),
        ([{"id": "a", "key": "s3cret"}], "line 1: has an unknown field; the fields are id, hash"),
        (
            [{"id": "a", "hash": HASH, "public_key": "s3cret"}],
            "line 1: the public key is not valid; write it as ed25519:",
        ),
        ([{"id": "a", "hash": HASH}, {"id": "a", "hash": hash_of("x")}], "two keys have the same id: a and a"),
        ([{"id": "a", "hash": HASH}, {"id": "b", "hash": HASH}], "two keys have the same hash: a and b"),
        ([{"id": "a", "hash": HASH, "scopes": ["a b"]}], "line 1: scopes: 'a b' is not a scope"),
        ([{"id": "a", "hash": HASH, "expires": "2027-01-01T00:00:00"}], "line 1: expires: has no time zone"),
        ([{"id": "a", "hash": HASH, "expires": "soon"}], "line 1: expires: "),
        ([{"id": "a", "hash": HASH, "expires": 5}], "line 1: expires: "),
        ([{"id": "a", "hash": HASH, "tools": "echo"}], "line 1: tools: "),
        ([{"id": "a", "hash": HASH, "concurrent": 0}], "line 1: concurrent: "),
    ],
)
def test_a_bad_entry_is_reported_with_its_line(tmp_path: Path, lines: list[str | dict[str, Any]], said: str) -> None:
    """A bad entry is reported with its line but without its content, which may be a secret key."""
    with pytest.raises(KeyFileError) as caught:
        read(written(tmp_path, *lines))
    assert said.lower() in str(caught.value).lower()
    assert "s3cret" not in str(caught.value)


@given(st.text() | st.recursive(st.none() | st.booleans() | st.text(), lambda x: st.dictionaries(st.text(), x)))
def test_no_line_causes_an_unexpected_error(tmp_path_factory: pytest.TempPathFactory, line: Any) -> None:
    """A line with any content is refused without an unexpected error."""
    file = tmp_path_factory.getbasetemp() / "keys"
    file.write_text(line if isinstance(line, str) else json.dumps(line), encoding="utf-8", errors="surrogatepass")
    with pytest.raises(KeyFileError):
        read(file)


def test_the_general_setting_replaces_a_missing_value() -> None:
    """An entry without a rate, a burst or a limit of concurrent calls uses the general setting for that value."""
    others = Rate(50, 1, 20, concurrent=5)
    assert KeyEntry(id="a", hash=HASH).rated(others) == others
    assert KeyEntry(id="a", hash=HASH, rate="600/m").rated(others) == Rate(600, 60, 10, concurrent=5)
    assert KeyEntry(id="a", hash=HASH, burst=7.0, concurrent=1).rated(others) == Rate(50, 1, 7, concurrent=1)


@pytest.mark.parametrize("arguments", [["check"], []])
@pytest.mark.parametrize("content", ["", "nonsense", '{"id": "a"}'])
def test_a_bad_file_stops_the_start(tmp_path: Path, content: str, arguments: list[str]) -> None:
    """A bad key file stops the start with one line that names the setting and the file. `check` finds it, too."""
    file = written(tmp_path, content)
    settings = {"AUTH_ENABLED": "true", "API_KEYS_FILE": str(file), "MCP_PORT": str(free_port())}
    done = start(*arguments, **settings)
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"API_KEYS_FILE: {file}")

"""Tests of the command line."""

import pytest

from anyreplica.load.message import Family
from anyreplica.load.options import read
from anyreplica.load.pace import Ramp
from conftest import SOURCE


def test_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    """By default, 20 clients make 100 calls of echo."""
    monkeypatch.delenv("MCP_TOKEN", raising=False)
    options = read([])
    assert (options.requests, options.seconds, options.concurrent, options.ramp) == (100, None, 20, None)
    assert (options.policy, options.families, options.what, options.headers) == ("keepalive", (Family.LEGACY,), {}, {})


def test_times_and_rates() -> None:
    """Times and rates may have units or not."""
    options = read(["--duration", "1.5m", "--timeout", "500ms", "--rate", "20/s", "--warm-up", "2"])
    assert (options.seconds, options.patience, options.warm_up) == (90, 0.5, 2)
    assert options.ramp == Ramp(20, 20, 0)
    assert options.requests is None


def test_a_ramp_takes_its_own_time() -> None:
    """A ramp has its own duration, unless another duration or a number of requests is given."""
    assert read(["--ramp", "0:100/30s"]).seconds == 30
    assert read(["--ramp", "0:100/30s", "--duration", "60s"]).seconds == 60
    assert read(["--ramp", "0:100/30s", "--requests", "5"]).seconds is None


def test_the_former_name_of_the_option_protocol_still_works() -> None:
    """The option --era is an alias of --protocol."""
    assert read(["--era", "modern"]).families == read(["--protocol", "modern"]).families == (Family.MODERN,)


def test_the_token_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The token comes from the environment, so that it is not in the shell's history."""
    monkeypatch.setenv("MCP_TOKEN", "secret")
    assert read([]).headers == {"Authorization": "Bearer secret"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--requests", "0"], "'0' is not a whole number above 0"),
        (["--requests", "-3"], "'-3' is not a whole number above 0"),
        (["--concurrent", "x"], "'x' is not a whole number"),
        (["--duration", "soon"], "write it like 500ms, 30s or 5m"),
        (["--duration", "0"], "not a time above 0"),
        (["--rate", "0"], "write it like 500/s"),
        (["--rate", "inf"], "not a number of 0 or more"),
        (["--ramp", "0:0/1s"], "sends nothing"),
        (["--ramp", "fast"], "write it like 0:1000/30s"),
        (["--rate", "5", "--ramp", "0:1/1s"], "give one of them"),
        (["--connections", "recycle:0"], "not keepalive, fresh or recycle:N"),
        (["--args", "{}x", "--tool", "a"], "is not JSON"),
        (["--args", "[]", "--tool", "a"], "is not a JSON object"),
        (["--args", '{"a": 1}'], "--args needs --tool or --method"),
        (["--tool", "a", "--args", '{"a": "{random:9-1}"}'], "{random:1-100}"),
        (["--tool", "a", "--session"], "not allowed with"),
        (["--mix", "/nowhere.json"], "can't read"),
        (["--header", "X"], "write it like 'X-Tenant: blue'"),
        (["--header", "X: a\r\nY: b"], "is not a header"),
        (["--threshold", "p99"], "write it like 'p99<200ms'"),
        (["--json", "/nowhere/at/all.json"], "the folder '/nowhere/at' does not exist"),
        (["--protocol", "future"], "invalid choice"),
        (["--compare", "/nowhere.json"], "can't read"),
        (["--compare", "pyproject.toml"], "as JSON"),
        (["--compare", str(SOURCE / "load/report/schema.json")], "is not a report that --json wrote"),
    ],
)
def test_a_wrong_option_is_refused(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong option ends the program with exit code 2 and a hint."""
    with pytest.raises(SystemExit) as ended:
        read(arguments)
    assert ended.value.code == 2
    assert said in " ".join(capsys.readouterr().err.split())

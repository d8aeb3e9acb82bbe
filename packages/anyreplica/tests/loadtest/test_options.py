"""Tests of the command line."""

from typing import Any

import pytest

from anyreplica.load.message import Family
from anyreplica.load.options import read
from anyreplica.load.run import Ramp
from conftest import SOURCE


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("", {"requests": None, "seconds": 10, "concurrent": 100, "ramp": Ramp(100, 100, 0), "policy": "keepalive"}),
        ("--concurrent 20", {"requests": 100, "seconds": None, "concurrent": 20, "ramp": None}),
        ("--session", {"requests": 100, "seconds": None, "concurrent": 20, "ramp": None}),
        ("", {"families": (Family.LEGACY,), "what": {}, "headers": {}}),
        ("--duration 1.5m --timeout 500ms", {"seconds": 90, "patience": 0.5, "requests": None}),
        ("--duration 9 --rate 20/s --warm-up 2", {"seconds": 9, "ramp": Ramp(20, 20, 0), "warm_up": 2}),
        ("--ramp 0:100/30s", {"seconds": 30}),
        ("--ramp 0:100/30s --duration 60s", {"seconds": 60}),
        ("--ramp 0:100/30s --requests 5", {"seconds": None}),
        ("--protocol modern", {"families": (Family.MODERN,)}),
        ("--era modern", {"families": (Family.MODERN,)}),  # the former name of --protocol
    ],
)
def test_options_are_read(monkeypatch: pytest.MonkeyPatch, line: str, found: dict[str, Any]) -> None:
    """Options have defaults, units or none, and a ramp its own duration; the token comes from the environment."""
    monkeypatch.delenv("MCP_TOKEN", raising=False)
    options = read(line.split())
    assert {name: getattr(options, name) for name in found} == found
    monkeypatch.setenv("MCP_TOKEN", "secret")  # so that it is not in the shell's history
    assert read(line.split()).headers == {"Authorization": "Bearer secret"}


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
        (["--find-max", "--ramp", "0:1/1s"], "leave out --ramp and --requests"),
        (["--find-max", "--requests", "5"], "leave out --ramp and --requests"),
        (["--find-max", "--threshold", "throughput>100"], "leave it out"),
        (["--sdk", "--connections", "fresh"], "--connections has no effect with --sdk"),
        (["--sdk", "--session"], "not allowed with"),
        (["--sdk", "--args", "{}x"], "is not JSON"),
        (["--sdk", "--args", '{"message": "a"}'], "--args needs --tool or --method"),
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

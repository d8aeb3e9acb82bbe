"""Tests of `python -m server audit verify`."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from conftest import ROOT, run
from tests.audit.calls import KEY, a_call, chained, line_of, said
from tests.docs.blocks import blocks
from tests.starts import start

_CODE = "import sys; from anyreplica.cli.audit import main; sys.exit(main(sys.argv[1:]))"


def audit(*arguments: object, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    """Run the command."""
    return start("audit", *map(str, arguments), given=stdin.decode())


@pytest.fixture
def lines() -> list[bytes]:
    """Return the entries of a run of three calls."""
    return chained([a_call()] * 3)


def written(path: Path, lines: Sequence[bytes]) -> Path:
    """Write the lines to a file and return its path."""
    path.write_bytes(b"".join(lines))
    return path


def test_an_intact_log(tmp_path: Path, lines: list[bytes]) -> None:
    """The command prints one line per run and the verdict for an intact log."""
    done = audit("verify", written(tmp_path / "log", lines))
    assert (done.returncode, done.stderr) == (0, "")
    first, verdict = done.stdout.splitlines()
    assert first.startswith("replica r1, run run1, from its beginning: 5 lines, 20")
    assert first.endswith(f", ended; last hash {said(lines[-1])['hash']}")
    assert verdict == "intact: 5 lines"


def test_a_broken_log(tmp_path: Path, lines: list[bytes]) -> None:
    """The command names the line of each problem in a broken log."""
    done = audit("verify", written(tmp_path / "log", lines[:2] + lines[3:4]))
    assert (done.returncode, done.stderr) == (1, "")
    first, problem, verdict = done.stdout.splitlines()
    assert ", no end: killed, still running, or cut off; last hash " in first
    assert problem == "the entry with seq 2 is missing before line 3, in the same run"
    assert verdict == "broken: 1 problem in 3 lines"


def test_many_problems_are_not_all_shown(tmp_path: Path) -> None:
    """The command shows the first problems only, but counts all of them."""
    lines = [line.replace(b'"ok"', b'"failed"') for line in chained([a_call()] * 2000)]
    done = audit("verify", written(tmp_path / "log", lines))
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 23
    assert done.stdout.splitlines()[-2:] == ["… and 1980 more problems", "broken: 2000 problems in 2002 lines"]


def test_from_a_pipe(lines: list[bytes]) -> None:
    """The command reads stdin and ignores the prefix that `docker service logs` puts before each line."""
    collected = b"".join(b"mcp.1.h2xk@node1    | " + line for line in [b"Ready\n", *lines])
    done = audit("verify", "-", stdin=collected)
    assert done.returncode == 0
    assert done.stdout.endswith("intact: 5 lines\n")
    assert audit("verify", "-").returncode == 1


def test_rotated_files_together(tmp_path: Path, lines: list[bytes]) -> None:
    """The command checks rotated files together; a problem names its file. The newer one alone needs `--part`."""
    old, new = written(tmp_path / "log.1", lines[:2]), written(tmp_path / "log", lines[2:])
    assert audit("verify", old, new).returncode == 0
    assert "is the first entry of its run here" not in audit("verify", old, new).stdout
    done = audit("verify", new, old)
    assert done.returncode == 1
    assert f"{new}, line 1 is the first entry of its run here" in done.stdout
    assert audit("verify", new).returncode == 1
    assert audit("verify", "--part", new).returncode == 0


def test_with_a_key(tmp_path: Path) -> None:
    """The command reads the key from a file, with or without a line break at its end."""
    log = written(tmp_path / "log", chained([a_call()], KEY))
    for key in (KEY, KEY + b"\n"):
        assert audit("verify", "--key-file", written(tmp_path / "key", [key]), log).returncode == 0
    assert audit("verify", log).returncode == 1
    done = audit("verify", "--key-file", written(tmp_path / "key", [KEY[::-1]]), log)
    assert done.returncode == 1
    assert KEY.decode() not in done.stdout + done.stderr


def test_an_expected_hash(tmp_path: Path, lines: list[bytes]) -> None:
    """The command reports whether an expected hash is in the log, in upper or lower case."""
    recorded = said(lines[-1])["hash"]
    log = written(tmp_path / "log", lines)
    assert audit("verify", "--expect", recorded.upper(), log).returncode == 0
    cut = written(tmp_path / "cut", lines[:-1])
    assert audit("verify", cut).returncode == 0
    done = audit("verify", "--expect", said(lines[0])["hash"], "--expect", recorded, cut)
    assert done.returncode == 1
    assert f"no entry has the hash {recorded}" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "COMMAND"),
        (("verify",), "FILE"),
        (("verify", "nowhere"), "nowhere: can't be read: No such file or directory"),
        (("verify", "tests"), "tests: can't be read: Is a directory"),
        (("verify", "--key-file", "nowhere", "-"), "nowhere: can't be read: No such file or directory"),
        (("verify", "--key-file", "/dev/null", "-"), "/dev/null: the key is shorter than 32 bytes"),
        (("verify", "--expect", "abc", "-"), "'abc' is not a hash; a hash has 64 hexadecimal digits"),
        (("forge", "-"), "forge"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], message: str) -> None:
    """The command reports a wrong usage on stderr."""
    done = audit(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_help_states_the_limits_of_the_check() -> None:
    """The help states the limits of the check and the exit codes."""
    done = audit("verify", "--help")
    assert done.returncode == 0
    assert "the command can't detect whether lines were removed" in done.stdout
    assert "exit codes:\n  0  intact\n  1  broken" in done.stdout


@pytest.mark.smoke
@pytest.mark.servers
def test_the_command_in_its_own_process() -> None:
    """`python -m … audit verify` reports a problem in one line on stderr, and its exit code is 2.

    The other tests run the command in their own process, see `tests.starts`.
    """
    done = run(sys.executable, "-m", "server", "audit", "verify", "nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "nowhere: can't be read: No such file or directory\n"


@pytest.mark.servers
def test_a_reader_that_goes_away_is_no_error(tmp_path: Path, lines: list[bytes]) -> None:
    """The command ends without an error when its reader is gone, as with `| head`."""
    log = written(tmp_path / "log", lines)
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", _CODE, "verify", log], cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_nothing_in_a_file_reaches_the_terminal_as_it_is(tmp_path: Path) -> None:
    """The command prints no control characters from a log, which could change what an operator sees."""
    log = written(tmp_path / "log", chained([a_call()], replica="\x1b[2J", run="a\u202eb"))
    assert audit("verify", log).stdout.replace("\n", "").isprintable()


def test_the_example_in_the_documentation_is_an_entry() -> None:
    """The entry on the page about the audit log has the fields of a real entry, in the same order."""
    (example,) = [block.text for block in blocks("json") if block.page.name == "audit-log.md"]
    assert list(json.loads(example)) == list(said(line_of(a_call({"message": "hi"}))))


@pytest.mark.servers
def test_find_the_calls_of_a_key(tmp_path: Path) -> None:
    """The command of the documentation finds the calls of one key among other calls and other lines."""
    calls = [a_call(), a_call(caller="key:partner"), a_call(caller="key:partner-2")]
    log = written(tmp_path / "log", [b"INFO a line of the server\n", *chained(calls)])
    (block,) = [block.text for block in blocks("bash") if "key:partner" in block.text]
    command = block.replace("docker service logs --raw mcp-swarm_mcp", f"cat {log}")
    assert command != block
    found = run("bash", "-c", command).stdout.splitlines()
    assert [json.loads(line)["caller"] for line in found] == ["key:partner"]

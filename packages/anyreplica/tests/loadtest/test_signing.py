"""Tests of a load of signed requests."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from anyreplica.load import workers
from anyreplica.load.client import LoadClient
from anyreplica.load.options import read
from anyreplica.load.run import LoadRun
from anyreplica.signing.keypair import new_pair, private_key
from conftest import StartServer, run
from tests.signing import calls
from tests.signing.asking import Asking, serving

pytestmark = pytest.mark.slow


@pytest.fixture
def signing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the options for signing with a key that the server accepts."""
    pem, _ = new_pair()
    file = tmp_path / "key.pem"
    file.write_text(pem)
    monkeypatch.setitem(calls.KEYS, "load", private_key(pem.encode()).public_key())
    return ["--sign-key", str(file), "--sign-key-id", "load"]


def go(asking: Asking, url: str, *arguments: str) -> LoadRun:
    """Run the load test against a server that requires signatures."""
    run = LoadRun(workers.load_of_part(read(["--url", f"{url}/mcp?a=1", *arguments]), ["127.0.0.1"], 0))
    asyncio.run(run.go(LoadClient))
    return run


@pytest.mark.parametrize("what", [(), ("--session",), ("--method", "tools/list")])
@pytest.mark.parametrize("family", ["legacy", "modern"])
def test_each_request_is_signed(
    start_server: StartServer, signing: list[str], what: tuple[str, ...], family: str
) -> None:
    """Each request is signed with its own nonce; a wrong signature would be a failure."""
    asking = Asking(forward_to=start_server().url)
    with serving(asking) as url:
        run = go(asking, url, *signing, *what, "--requests", "10", "--concurrent", "3", "--protocol", family)
    assert {each.kind for each in run.samples} == {""}
    assert len(asking.bodies) == len(run.samples) >= 10


@pytest.mark.parametrize("client", [(), ("--sdk",), ("--processes", "2")])
def test_the_whole_load_test(
    start_server: StartServer, signing: list[str], tmp_path: Path, client: tuple[str, ...]
) -> None:
    """The whole load test works with signed requests, from its command line to its figures."""
    file = tmp_path / "load.json"
    with serving(Asking(forward_to=start_server().url)) as url:
        load = ["--requests", "20", "--concurrent", "4", "--expect-replicas", "1", "--json", str(file)]
        done = run(sys.executable, "test_swarm_load.py", "--url", f"{url}/mcp", *signing, *client, *load)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(file.read_text())
    assert (figures["requests"], figures["succeeded"]) == (20, 20)
    assert "PRIVATE KEY" not in file.read_text() + done.stdout


def test_wrong_options(signing: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong option ends the program with exit code 2 and a full sentence."""
    key, file, option, _ = signing
    other = tmp_path / "other.pem"
    other.write_text("no key")
    for arguments, said in (
        ([key, file], "--sign-key and --sign-key-id belong together: give both"),
        ([option, "ci"], "--sign-key and --sign-key-id belong together: give both"),
        ([key, "/nowhere.pem", option, "ci"], "can't read '/nowhere.pem': No such file or directory"),
        ([key, str(other), option, "ci"], "The private key is not valid; use an Ed25519 key in PEM format without a"),
        ([key, file, option, 'c"i'], "The key id must be printable ASCII characters"),
        ([*signing, "--url", "http://localhost/é"], "The URL must be percent-encoded."),
    ):
        with pytest.raises(SystemExit) as ended:
            read(arguments)
        assert ended.value.code == 2
        assert said in " ".join(capsys.readouterr().err.split())

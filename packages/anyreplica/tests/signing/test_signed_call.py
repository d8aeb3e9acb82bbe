"""Tests of `deploy/signed-call.sh`, run as a person runs it."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from anyreplica.signing.keypair import private_key, public_key
from conftest import ROOT, free_port
from tests.signing.asking import Asking, serving
from tests.signing.calls import KEY

pytestmark = pytest.mark.servers

SCRIPT = str(ROOT / "deploy" / "signed-call.sh")
MESSAGE = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'


ASKING = Asking()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The URL of a server that requires signatures."""
    with serving(ASKING) as found:
        yield found


@pytest.fixture
def pem(tmp_path: Path) -> str:
    """The path of a private key, with characters that a shell might split."""
    file = tmp_path / "a key's.pem"
    file.write_bytes(KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return str(file)


def run(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run the script."""
    return subprocess.run([SCRIPT, *arguments], input=given, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    "target",
    ["/mcp", "", "/", "?a=1", "/?", "/mcp?a=1&b={x,y}[1-3]", "/a/../b//c;d/%C3%A9?q=/x?y", "?a=/b", "/mcp?a=1#part"],
)
def test_any_target_is_signed(url: str, pem: str, target: str) -> None:
    """Any target is signed in the form that curl sends."""
    done = run(url + target, "ci", pem, MESSAGE)
    if "{" in target or "[" in target:  # these characters must be percent-encoded, as the server says
        assert (done.returncode, "Invalid URL" in done.stdout) == (22, True)
        return
    assert (done.returncode, done.stdout, done.stderr) == (0, '{"signed_by":"ci"}', "")


@pytest.mark.parametrize("message", [MESSAGE, '{"a": "wörld\n\'$HOME\\n"}\n', "\n\n", "@/etc/hostname", "-"])
def test_the_message_is_sent_byte_by_byte(url: str, pem: str, message: str) -> None:
    """The message is sent unchanged, from an argument or from standard input."""
    for done in (run(f"{url}/mcp", "ci", pem, message), run(f"{url}/mcp", "ci", pem, given=message)):
        assert (done.returncode, done.stdout) == (0, '{"signed_by":"ci"}'), done.stderr
        assert ASKING.bodies[-1] == message.encode()


def test_a_failure_is_shown(url: str, pem: str) -> None:
    """The script ends with curl's exit code, after the server's reason or, if no server answers, curl's error."""
    refused = run(f"{url}/mcp", "nightly", pem, MESSAGE)
    assert (refused.returncode, "does not match" in refused.stdout) == (22, True)
    unanswered = run(f"http://127.0.0.1:{free_port()}/mcp", "ci", pem, MESSAGE)
    assert (unanswered.returncode, "curl: (7)" in unanswered.stderr) == (7, True)


def test_wrong_arguments(url: str, pem: str, tmp_path: Path) -> None:
    """A wrong argument gets one sentence, and the script sends nothing."""
    rsa = tmp_path / "rsa.pem"
    subprocess.run(["openssl", "genrsa", "-out", str(rsa), "2048"], check=True, capture_output=True)
    locked = tmp_path / "locked.pem"
    lock = ["openssl", "pkey", "-in", pem, "-aes256", "-passout", "pass:hunter2", "-out", str(locked)]
    subprocess.run(lock, check=True)
    for arguments, said in (
        ((url, "ci"), "expected 3 or 4 arguments, got 2"),
        ((url, "ci", pem, MESSAGE, "more"), "expected 3 or 4 arguments, got 5"),
        (("localhost/mcp", "ci", pem, MESSAGE), "'localhost/mcp' is not a URL like"),
        (("http:///mcp", "ci", pem, MESSAGE), "is not a URL like"),
        ((f"{url}/é", "ci", pem, MESSAGE), "must be percent-encoded"),
        ((f"{url}/a b", "ci", pem, MESSAGE), "must be percent-encoded"),
        *(((url, key, pem, MESSAGE), "a key id needs printable ASCII") for key in ("", 'c"i', "c\\i", "c\ni", "é")),
        ((url, "ci", "/nowhere.pem", MESSAGE), "can't read the file '/nowhere.pem'"),
        *(((url, "ci", str(file), MESSAGE), "is not an Ed25519 private key") for file in (SCRIPT, rsa, locked)),
    ):
        done = run(*arguments)
        assert (done.returncode, done.stdout) == (2, ""), arguments
        assert done.stderr.startswith("signed-call.sh: ")
        assert said in done.stderr
        assert done.stderr.count("\n") <= 2


def test_help_makes_a_pair(tmp_path: Path) -> None:
    """The two commands of the help, copied unchanged, make a key pair."""
    done = run("--help")
    assert done.returncode == 0
    commands = re.findall(r"^  ((?:openssl|echo) .*)$", done.stdout, re.MULTILINE)
    assert len(commands) == 2
    script = ["bash", "-ec", "\n".join(commands)]
    made = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, check=True)
    key = private_key((tmp_path / "KEY.pem").read_bytes())
    assert public_key(made.stdout.strip()) == key.public_key()


def test_nothing_is_left_behind(url: str, pem: str, tmp_path: Path) -> None:
    """The script leaves no file behind, because the message may be secret."""
    before = set(tmp_path.iterdir())
    environment = {"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)}
    subprocess.run([SCRIPT, url, "ci", pem, MESSAGE], env=environment, check=True, capture_output=True)
    assert set(tmp_path.iterdir()) == before

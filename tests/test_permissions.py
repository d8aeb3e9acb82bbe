"""Example tests of a caller's permissions."""

import subprocess
import sys
from pathlib import Path

import pytest
from anyreplica.testing import CallFailed, replica

from server.server import create_app


def new_key(file: Path, *options: str) -> str:
    """Create a key, add its entry to a file of API keys, and return the key."""
    command = [sys.executable, "-m", "anyreplica", "keys", "new", *options]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    with file.open("a") as keys:
        keys.write(made.stdout)
    return made.stderr.split()[-1]


def test_a_caller_sees_its_own_tools(tmp_path: Path) -> None:
    """A caller with a key for one tool does not see or call any other tool."""
    pytest.importorskip("server.tools.arithmetic")
    keys = tmp_path / "api_keys"
    limited = new_key(keys, "limited", "--tool", "add")
    with replica(create_app, AUTH_ENABLED="true", API_KEYS_FILE=str(keys)) as anybody:
        assert anybody.with_token(limited).tools() == ["add"]
        with pytest.raises(CallFailed, match="Unknown tool"):
            anybody.with_token(limited).call("server_info")


def test_nobody_else_is_served(tmp_path: Path) -> None:
    """A caller without a key gets 401."""
    keys = tmp_path / "api_keys"
    new_key(keys, "somebody")
    with (
        replica(create_app, AUTH_ENABLED="true", API_KEYS_FILE=str(keys)) as anybody,
        pytest.raises(CallFailed) as refused,
    ):
        anybody.tools()
    assert refused.value.status == 401

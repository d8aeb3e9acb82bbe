"""An attacker that does whatever comes to its mind.

`ATTACK_SEED` repeats what it does, though not when; `ATTACK_SECONDS` is how long it does so.
"""

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT, until
from mcp_swarm.mcp.call import PING_SECONDS
from tests.attacks.attacker import Told
from tests.attacks.conftest import Attack, Attacked

SECONDS = float(os.environ.get("ATTACK_SECONDS", "30"))
SEED = os.environ.get("ATTACK_SEED") or secrets.token_hex(4)
SEEN = {"200", "202", "400", "404", "408", "413"}
"""Replies without which it was no attack; in half a minute not every kind of request comes for sure."""

GROWTH = 60
"""MB."""


def attacked(replica: Attacked) -> Told:
    """Attack; returns what the attacker tells."""
    command = [sys.executable, "-m", "tests.attacks.attacker", str(replica.server.port), SEED, str(SECONDS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=SECONDS + 60)
    assert done.returncode == 0, done.stderr
    return Told(**json.loads(done.stdout))


def sockets(replica: Attacked) -> int:
    """Sockets that the replica has open, in whatever state."""
    files = Path(f"/proc/{replica.server.process.pid}/fd").iterdir()
    return sum(file.is_symlink() and str(file.readlink()).startswith("socket:") for file in files)


@pytest.mark.alone
@pytest.mark.timeout(SECONDS + 180)
def test_a_replica_outlives_an_attacker(attack: Attack) -> None:
    """It serves others meanwhile. When the attacker has gone, no connection is left, and memory has hardly grown.

    A subscriber may send another request and then go. The replica finds that out only by its pings, at the latest by
    the second.
    """
    replica = attack(
        RECEIVE_TIMEOUT_SECONDS="3", SEND_TIMEOUT_SECONDS="3", KEEP_ALIVE_SECONDS="5", LOOP_STALL_SECONDS="10"
    )
    print(f"ATTACK_SEED={SEED} ATTACK_SECONDS={SECONDS:g}")
    before, files = replica.rss, sockets(replica)
    with replica.beside_good_client():
        told = attacked(replica)
        print(f"{told.open} connections at once, {told.share:.0%} of a core; {told.rounds}; {told.statuses}")
    assert replica.server.process.poll() is None, replica.server.output[-3000:]
    until(lambda: replica.connections == 0, "no connection is left", 15)
    until(lambda: sockets(replica) <= files, "no socket is left", 2 * PING_SECONDS + 5)
    print(f"RSS {before:.0f} MB before, {replica.rss:.0f} MB when all had gone")
    # It is trimmed every half a minute.
    until(lambda: replica.rss < before + GROWTH, f"memory is within {GROWTH} MB of before", 45)
    print(f"RSS {replica.rss:.0f} MB in the end")
    assert told.faults == []
    assert told.statuses.keys() >= SEEN
    log = replica.server.output
    for sign in ("Traceback (most recent call last)", "Unhandled error"):
        place = log.find(sign)
        assert place < 0, log[max(0, place - 500) : place + 4000]

"""An attacker at random for ATTACK_SECONDS. ATTACK_SEED repeats its actions, but not their times."""

import json
import os
import secrets
import subprocess
import sys

import pytest

from anyreplica.http.responses import PING_SECONDS
from conftest import ROOT, until
from tests.attacks.conftest import Attack, Attacked
from tests.attacks.counted_connection import Report
from tests.processes import open_files

SECONDS = float(os.environ.get("ATTACK_SECONDS", "30"))
SEED = os.environ.get("ATTACK_SEED") or secrets.token_hex(4)
SEEN = {"200", "202", "400", "404", "408", "413"}
"""Statuses that every attack causes, even one of half a minute."""
GROWTH = 75
"""Maximum growth of the replica's memory, in MB. Half of it are events that clients may resume (RESUME_BYTES)."""
_SESSIONS = {"HANDSHAKE_SESSIONS": "full", "MCP_COMPONENTS": "server,tests.packs.asking,tests.packs.heavy"}
_SESSIONS |= {"TRUSTED_PROXIES": "127.0.0.1,127.0.0.2", "RESUME_SECONDS": "5"}
_SESSIONS |= {"CLIENT_REQUEST_SECONDS": "10", "SHUTDOWN_GRACE_SECONDS": "1"}


def attacked(replica: Attacked) -> Report:
    """Attack the replica and return the attacker's report."""
    command = [sys.executable, "-m", "tests.attacks.attacker", str(replica.server.port), SEED, str(SECONDS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=SECONDS + 60)
    assert done.returncode == 0, done.stderr
    return Report(**json.loads(done.stdout))


def sockets(replica: Attacked) -> int:
    """Return the number of open sockets of the replica, in any state."""
    return sum(file.startswith("socket:") for file in open_files(replica.server.process.pid))


@pytest.mark.alone
@pytest.mark.timeout(SECONDS + 600)
def test_a_replica_outlives_an_attacker(attack: Attack) -> None:
    """During a random attack a replica serves others, within its memory; afterwards no connection is left."""
    limits = {"RECEIVE_TIMEOUT_SECONDS": "3", "SEND_TIMEOUT_SECONDS": "3", "KEEP_ALIVE_SECONDS": "5"}
    replica = attack(**_SESSIONS, **limits, LOOP_STALL_SECONDS="10")
    print(f"ATTACK_SEED={SEED} ATTACK_SECONDS={SECONDS:g}")
    before, files = replica.rss, sockets(replica)
    with replica.beside_good_client():
        report = attacked(replica)
        print(f"At most {report.open} connections, {report.share:.0%} of a core; {report.rounds}; {report.statuses}")
    assert replica.server.process.poll() is None, replica.server.output[-3000:]
    until(lambda: replica.connections == 0, "the replica has no open connection")
    # If a subscriber has sent another request, the replica notices that it is gone with the second ping at the latest.
    until(lambda: sockets(replica) <= files, "the replica has no more sockets than before", 2 * PING_SECONDS + 5)
    print(f"Memory: {before:.0f} MB before, {replica.rss:.0f} MB after all connections had ended.")
    # The replica returns free memory to the system every half a minute.
    until(lambda: replica.rss < before + GROWTH, f"the replica uses at most {GROWTH} MB more than before", 45)
    print(f"Memory: {replica.rss:.0f} MB at the end.")
    assert report.faults == []
    assert report.statuses.keys() >= SEEN
    log = replica.server.output
    for sign in ("Traceback (most recent call last)", "Unhandled error"):
        place = log.find(sign)
        assert place < 0, log[max(0, place - 500) : place + 4000]

"""Hundreds of connections that are opened at the same moment."""

import contextlib

import pytest

from tests.attacks.conftest import Attack
from tests.attacks.test_pipelines import REQUEST


@pytest.mark.alone
def test_a_new_client_does_not_wait_for_a_whole_burst(attack: Attack) -> None:
    """A new client does not wait one long turn of the event loop for each connection of a burst."""
    replica = attack(LOOP_STALL_SECONDS="2")
    with replica.beside_good_client(longest=0.5):
        for _ in range(8):
            with replica.connected(400) as burst:
                for connection in burst:
                    with contextlib.suppress(ConnectionError):
                        connection.sendall(REQUEST * 40)
                for connection in burst:
                    with contextlib.suppress(ConnectionError):
                        connection.recv(65536)

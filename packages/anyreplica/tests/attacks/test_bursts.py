"""Hundreds of connections that are opened at the same moment."""

import contextlib

import pytest

from tests.attacks.conftest import Attack
from tests.attacks.test_pipelines import REQUEST

_CONNECTIONS = 400
_ROUNDS = 8


@pytest.mark.alone
def test_a_new_client_does_not_wait_for_a_whole_burst(attack: Attack) -> None:
    """A new client does not wait one long turn of the event loop for each connection of a burst."""
    replica = attack(LOOP_STALL_SECONDS="2")
    with replica.beside_good_client(longest=0.5):
        for _ in range(_ROUNDS):
            with contextlib.ExitStack() as stack:
                burst = [stack.enter_context(replica.connect()) for _ in range(_CONNECTIONS)]
                for connection in burst:
                    with contextlib.suppress(ConnectionError):
                        connection.sendall(REQUEST * 40)
                for connection in burst:
                    with contextlib.suppress(ConnectionError):
                        connection.recv(65536)

"""The round of a multi-round call that waits for its client, in a sealed form that any replica can read.

A round is in Redis while the call waits. If the replica of the call is lost, another replica continues with the round.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp.server.request_state import AESGCMRequestStateCodec, InvalidRequestState
from pydantic_core import from_json

from anyreplica.http.responses import encode
from anyreplica.settings.words import derived

_FORMAT = 1
MOST_CHARACTERS = 256 * 1024
"""Maximum size of a sealed round. A call with a larger round is not taken over."""


@dataclass(frozen=True, slots=True)
class Question:
    """A request to the client that belongs to a round."""

    identity: str
    """The JSON-RPC id of the request."""
    method: str
    params: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class OpenRound:
    """A round that waits for the client's answers."""

    method: str
    """The JSON-RPC method of the call."""
    params: dict[str, Any]
    """The params of the call, as the client sent them."""
    version: str
    """The protocol version of the call."""
    number: int
    """Number of the round. The first round has number 0."""
    state: str | None
    """The state that the component returned."""
    questions: Mapping[str, Question]
    """The questions of this round, by the names that the component gave them."""


class RoundSeal:
    """Seals (encrypts and authenticates) rounds.

    Args:
        keys: REQUEST_STATE_KEYS. The first key seals, and every key opens.
        audience: the server's name. A round of a server with another name cannot be opened.
    """

    def __init__(self, keys: Sequence[str], audience: str) -> None:
        self._codec = AESGCMRequestStateCodec(derived(keys, "open round"))
        self._audience = audience

    def seal(self, stream: str, found: OpenRound) -> str:
        """Return a round in sealed form. It is valid only for the call with this event stream."""
        questions = {name: [each.identity, each.method, each.params] for name, each in found.questions.items()}
        call = [found.method, found.params, found.version, found.number, found.state]
        return self._codec.seal(encode([_FORMAT, self._audience, stream, *call, questions]))

    def open(self, stream: str, sealed: str) -> OpenRound | None:
        """Return a round from its sealed form. None: it is invalid, or from another version of this package."""
        try:
            form, audience, sealed_for, method, params, version, number, state, asked = from_json(
                self._codec.unseal(sealed)
            )
        except (InvalidRequestState, ValueError):
            return None
        if form != _FORMAT or audience != self._audience or sealed_for != stream:
            return None
        questions = {name: Question(*each) for name, each in asked.items()}
        return OpenRound(method, params, version, number, state, questions)


def new_identity() -> str:
    """Return a random id for a request to a client. It is unique on all replicas, and no other client can guess it."""
    return secrets.token_urlsafe(16)

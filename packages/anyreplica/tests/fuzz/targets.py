"""Readers of callers' bytes and operators' files. Any bytes may only raise the documented exceptions."""

import asyncio
import base64
import functools
import json
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from starlette.types import Scope
from uvicorn.server import ServerState

from anyreplica import Settings
from anyreplica.auth.authentication import BadSignature
from anyreplica.auth.client_identity import Addresses
from anyreplica.features.audit.call import ARGUMENTS, note_arguments
from anyreplica.features.jobs.feature import Submission
from anyreplica.features.keys.key import KeyFileError, KeyRing, hash_of
from anyreplica.features.keys.tokens import Tokens
from anyreplica.features.signatures.signed_requests import check_digest
from anyreplica.http.request_limits import HeadCheck
from anyreplica.http.request_record import RECORD, headers_of, new_record, note
from anyreplica.http.responses import Refused
from anyreplica.http.uvicorn.connections import KEY, Connections
from anyreplica.http.uvicorn.protocol import HttpProtocol
from anyreplica.mcp import message as messages
from anyreplica.mcp.message import Request, Response, called, called_tool, parse
from anyreplica.settings.rate import NO_RATE
from tests.audit.calls import a_call, chained, verify
from tests.auth.issuer import AUDIENCE, NAME, Issuer
from tests.calls import ENVELOPE, VERSION, request
from tests.damage.structured import VECTORS
from tests.http.connections import CONFIG, Wire, app
from tests.signing.calls import Call, proper, signatures


@dataclass(frozen=True)
class Target:
    """A reader, its documented exceptions and examples of its input."""

    read: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...]
    """Exceptions that the reader may raise for invalid bytes."""
    seeds: list[bytes]
    """Bytes that the reader accepts, or almost accepts."""

    def try_out(self, data: bytes) -> None:
        """Let the reader read bytes. Ignore only the exceptions that the reader may raise."""
        with suppress(*self.refusals):
            self.read(data)


_ARGUMENTS = {"region": "ä", "at": {"count": 12.0}}
_CALL = request("tools/call", {"name": "sold", "arguments": _ARGUMENTS, "_meta": ENVELOPE})
_MESSAGE = json.dumps(_CALL).encode()
_MESSAGES = [
    _MESSAGE,
    json.dumps(request("initialize", {"protocolVersion": "2025-11-25"}, "id")).encode(),
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
    b'{"jsonrpc":"2.0","id":1,"result":{"a":[1e400,-0.0,123456789012345678901234567890,"\\ud83d\\udc4b"]}}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"submit_job","arguments":{"job":"x"}}}',
]
_ROUTING = [f"mcp-protocol-version: {VERSION}", "mcp-method: tools/call", "mcp-name: sold"]
_MIRRORED = ["mcp-param-region: =?base64?w6Q=?=", "mcp-param-count: 12"]
_HEADS = ["\n".join([*_ROUTING, *mirrored]).encode() + b"\n\n" for mirrored in (_MIRRORED, _MIRRORED[:1] * 2)]
_HEADS.append(b"mcp-protocol-version: 2025-11-25\n\n")
_COUNT = {"type": "object", "properties": {"count": {"type": "integer", "x-mcp-header": "Count"}}}
_REGION = {"type": "string", "x-mcp-header": "Region"}
_SCHEMAS = {"sold": {"type": "object", "properties": {"region": _REGION, "at": _COUNT}}}


def _message(data: bytes) -> None:
    message = parse(data)
    if isinstance(message, Request):
        called(message)
        called_tool(message)
        record = new_record({})
        note(record, ARGUMENTS, b"")
        note_arguments({RECORD: record}, message.params)


def _envelope(data: bytes) -> None:
    """Read headers, one per line, then an empty line, then a body."""
    head, _, body = data.partition(b"\n\n")
    pairs = [tuple(line.partition(b": ")[::2]) for line in head.split(b"\n")]
    scope: Scope = {"type": "http", "headers": [(name.lower(), value) for name, value in pairs]}
    headers, message = headers_of(scope), parse(body)
    if messages.handshake_version(headers) is not None or isinstance(message, Response):
        return
    if isinstance(message, Request):
        messages.check_envelope(message, messages.Routing(headers))
        messages.check_param_headers(message, scope, _SCHEMAS)
    else:
        messages.check_served(headers)


_LIMITS, _ADMISSION, _ADDRESSES = Connections(Settings()), HeadCheck((), ()), Addresses(["127.0.0.0/8"])


def _http(data: bytes) -> None:
    """Receive the bytes on a connection in two pieces, and check each request's head as the middleware does."""
    wire: Any = Wire()
    protocol = HttpProtocol(config=CONFIG, server_state=ServerState(), app_state={KEY: _LIMITS}, _loop=wire)
    protocol.connection_made(wire)
    for piece in (data[: len(data) // 2], data[len(data) // 2 :]):
        protocol.data_received(piece)
        while protocol.reader.can_read(busy=protocol._active is not None):
            protocol._go_on()
    for cycle in filter(None, (protocol._active, *protocol.reader.waiting)):
        scope: Scope = {**cycle.scope, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8000)}
        _ADDRESSES.of(scope)
        with suppress(Refused):
            _run(_ADMISSION.check(scope, app))  # type: ignore[arg-type]  # it receives nothing


def _run(coroutine: Coroutine[Any, Any, object]) -> None:
    """Run a coroutine that never waits, without a loop."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("the reader waited for more data")


@functools.cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="fuzz-targets-"))


def _keys(data: bytes) -> None:
    file = _folder() / "keys"
    file.write_bytes(data)
    ring = KeyRing(None, file, NO_RATE)
    ring.caller(b"k")
    ring.signer("a")
    ring.public_key("a")


_BEFORE = "2026-01-01T00:00+23:59"
_KEYS = [
    json.dumps({"id": "a", "hash": hash_of("k"), "rate": "100/s", "burst": 2, "expires": "2027-01-01T00:00:00Z"}),
    json.dumps({"id": "b", "public_key": f"ed25519:{'A' * 43}=", "tools": ["x*"], "not_before": _BEFORE}),
]

_SIGNED = Call().signed()
_COVERED = ["signature-input", "signature", "content-digest", "host"]
_VALUES = dict(_SIGNED.headers)


_signatures = functools.cache(signatures)


def _signature(data: bytes) -> None:
    """Check the headers of a signed call, one per line."""
    call = _SIGNED
    for name, value in zip(_COVERED, data.split(b"\n"), strict=False):
        call = call.replace(name, value.decode("latin-1"))
    try:
        _run(_signatures().check(call.scope, call.body))
    except BadSignature as refused:
        proper(str(refused))
        raise


def _submission(data: bytes) -> None:
    try:
        Submission.model_validate_json(data)
    except ValidationError as error:
        problem = error.errors()[0]
        ".".join(map(str, problem["loc"])).encode()
        problem["msg"].encode()


@functools.cache
def _tokens() -> tuple[asyncio.Runner, Tokens, bytes]:
    issuer = Issuer()
    file = _folder() / "jwks"
    file.write_text(json.dumps(issuer.public))
    claims_and_signature = issuer.token().encode().partition(b".")[2]
    return asyncio.Runner(), Tokens(NAME, [AUDIENCE], str(file), ["RS256"], NO_RATE), claims_and_signature


def _token(data: bytes) -> None:
    """Check the bytes as a token, and as the head of a token."""
    runner, tokens, rest = _tokens()
    head = base64.urlsafe_b64encode(data).rstrip(b"=")
    for token in (data, head + b"." + rest):
        runner.run(tokens.caller(token))


_HEAD = (
    b"POST /mcp?a=%20b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nX-Forwarded-For: 1.2.3.4\r\n"
)
_CHUNKED = b'Transfer-Encoding: chunked\r\n\r\n5\r\n{"a":\r\n2;x=y\r\n1}\r\n0\r\nX: y\r\n\r\nGET / HTTP/1.0\r\n\r\n'
_HTTP = [
    _HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(_MESSAGE), _MESSAGE),
    _HEAD + _CHUNKED,
    b"OPTIONS * HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: h2c\r\nOrigin: http://[::1]:80\r\n\r\n",
]
_DIGESTS = [_VALUES["content-digest"].encode(), b'sha-512=:AAAA:;a=1, sha-256=?1, x=("a" 1.5);b=@5']
_DIGESTS += [text.encode("latin-1") for text in VECTORS]
_AUDIT = chained([a_call({"a": 1}), a_call()])

TARGETS = {
    "message": Target(_message, (Refused,), _MESSAGES),
    "envelope": Target(_envelope, (Refused,), [head + body for head in _HEADS for body in _MESSAGES[:3]]),
    "http": Target(_http, (), _HTTP),
    "submission": Target(_submission, (), [b'{"job":"export_data","params":{"rows":5,"form":"csv"}}']),
    "keys": Target(_keys, (KeyFileError,), ["\n".join(_KEYS).encode(), b"# none\n\n"]),
    "signature": Target(_signature, (BadSignature,), ["\n".join(_VALUES[name] for name in _COVERED).encode()]),
    "digest": Target(lambda data: check_digest(data.decode("latin-1"), _SIGNED.body), (BadSignature,), _DIGESTS),
    "token": Target(_token, (), [b'{"alg":"RS256","kid":"first","typ":"JWT"}', b"e30.e30.e30", b'{"alg":[],"crit":1}']),
    "audit": Target(lambda data: verify(data.splitlines(keepends=True)), (), [b"".join(_AUDIT)]),
}
"""Targets by name."""

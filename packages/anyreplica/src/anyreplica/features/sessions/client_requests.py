"""Requests to a client in the middle of a call (elicitation, sampling, roots, ping), and its progress on them."""

import asyncio
import contextlib
import itertools
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import anyio
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST, ClientCapabilities
from mcp_types.jsonrpc import REQUEST_TIMEOUT
from pydantic_core import from_json

from anyreplica.features.sessions.answers import Answers, Delivery, SessionEnded, Wait
from anyreplica.features.sessions.call_events import Question
from anyreplica.features.sessions.metrics import ClientRequestMetrics
from anyreplica.features.sessions.session import Session, WaitingCall, unknown_session
from anyreplica.http.responses import ClientGone, Refused, encode
from anyreplica.mcp.call import ClientRequestError
from anyreplica.process.event_loop import background_task
from anyreplica.shared.lost_redis import retry_for
from anyreplica.shared.notifier import Notifier
from anyreplica.shared.outage import Outage

logger = logging.getLogger(__name__)

_LONGEST = 4096
"""Maximum size of a report, in bytes. A larger report is dropped."""
_MOST_WAITING = 100
"""Maximum number of reports that wait for a slow tool. Further reports are dropped."""


class ClientProgress:
    """The progress that clients report about requests of the server (MCP 2025-11-25, Utilities, "Progress")."""

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier

    async def pass_on(self, session: Session, params: Mapping[str, Any]) -> None:
        """Pass a report of a client on to the replica whose request it belongs to. An invalid report is dropped.

        Args:
            params: the params of `notifications/progress`. The progress token is the id of the request.
        """
        match params:
            case {"progressToken": str() as token, "progress": int() | float() as progress}:
                message = params.get("message")
                numbers = _finite(progress), _finite(params.get("total"))
                report = encode([*numbers, message if isinstance(message, str) else None])
                if numbers[0] is not None and len(report) <= _LONGEST and "\n" not in token:
                    await self._notifier.send(_name(session, token), report.decode())

    @contextlib.asynccontextmanager
    async def reported(self, session: Session, identity: str, on_progress: ProgressFnT) -> AsyncIterator[None]:
        """Call `on_progress` with each report about a request, in their order, inside the `async with` block."""
        reports: asyncio.Queue[str] = asyncio.Queue(_MOST_WAITING)

        def enqueue(report: str) -> None:
            with contextlib.suppress(asyncio.QueueFull):
                reports.put_nowait(report)

        async def deliver() -> None:
            while True:
                progress, total, message = from_json(await reports.get())
                try:
                    await on_progress(progress, total, message)
                except Exception:
                    logger.exception("A tool's function for progress has failed")

        with self._notifier.receiving(_name(session, identity), enqueue):
            async with background_task(deliver()):
                yield


def _finite(value: object) -> float | None:
    """Return a number of JSON as a finite float; return None for anything else."""
    with contextlib.suppress(OverflowError):
        if isinstance(value, int | float) and math.isfinite(value):
            return float(value)
    return None


def with_progress(question: Question) -> Question:
    """Return a request that asks the client for progress. The progress token is the id of the request."""
    params = question.params or {}
    meta = {**params.get("_meta", {}), "progressToken": question.identity}
    return replace(question, params={**params, "_meta": meta})


def _name(session: Session, identity: str) -> str:
    return f"progress:{session.key}:{identity}"


class MissingCapability(ClientRequestError):
    """The client was not asked, because it has not declared the capability that the request needs.

    Attributes:
        capability: the name of the capability.
    """

    def __init__(self, method: str, capability: str) -> None:
        what = _REQUESTS.get(method, method)
        super().__init__(INVALID_REQUEST, f"{what} not supported: the client lacks the capability {capability}.")
        self.capability = capability


_REQUESTS = {
    "elicitation/create": "Elicitation",
    "sampling/createMessage": "Sampling",
    "roots/list": "List roots",
}
"""The words with which the client of the MCP SDK refuses these requests."""

WriteEvent = Callable[[bytes], Awaitable[None]]
"""Writes a JSON-RPC message as an event on the event stream of a call."""

_GOODBYE_SECONDS = 1.0
"""Time limit for telling the client that a request has ended, in seconds."""


class ClientRequests:
    """The requests of a replica to clients.

    Args:
        answers: the store of waiting requests and answers.
        seconds: time limit for an answer.
    """

    def __init__(self, answers: Answers, seconds: float) -> None:
        self.answers = answers
        self.seconds = seconds
        self.metrics = ClientRequestMetrics()
        self._outage = Outage(logger, "clients are not asked, and their answers are refused")

    async def send(
        self,
        session: Session,
        write: WriteEvent,
        call: WaitingCall,
        question: Question,
        limit: float,
        *,
        of_round: bool = False,
        is_sent: bool = False,
    ) -> dict[str, Any]:
        """Send a request to the client and return the result of its answer.

        Args:
            write: writes an event on the event stream of the call.
            call: the call that asks.
            question: the request.
            limit: time limit that the tool sets for this request, in seconds. The shorter one of `limit` and the
                setting holds.
            of_round: whether another replica may take over the request.
            is_sent: whether another replica has already sent the request, so that this one only waits for the answer.

        Raises:
            MissingCapability: the client lacks the capability.
            ClientRequestError: the client does not answer in time, or answers with an error; or a limit of waiting
                calls is reached.
        """
        method, params = question.method, question.params
        missing = missing_capability(session.client.capabilities, method, params)
        if missing:
            self.metrics.count(method, "unsupported")
            raise MissingCapability(method, missing)
        identity = question.identity
        request = {"jsonrpc": "2.0", "id": identity, "method": method} | ({} if params is None else {"params": params})
        seconds = min(self.seconds, limit)
        started = time.monotonic()
        outcome = "failed"
        try:
            with call.waiting(beyond=is_sent):
                async with self._expecting(session, identity, seconds, of_round=of_round) as wait:
                    if not is_sent:
                        await write(encode(request))
                    sent = await wait(seconds)
                    call.note_answer(sent)
                    answer: dict[str, Any] = from_json(sent)
            outcome = "error" if "error" in answer else "answered"
        except TimeoutError:
            outcome = "timeout"
            why = f"The client did not answer {method} within {seconds:g} s."
            await _cancel(write, identity, why)
            raise ClientRequestError(REQUEST_TIMEOUT, why) from None
        except asyncio.CancelledError:
            outcome = "cancelled"
            with anyio.CancelScope(shield=True):  # an anyio scope of the tool would cancel the writing, too
                await _cancel(write, identity, "The call has ended.")
            raise
        finally:
            self.metrics.count(method, outcome, time.monotonic() - started)
        error = answer.get("error")
        if error is not None:
            raise ClientRequestError(error["code"], error["message"], error.get("data"))
        result: dict[str, Any] = answer["result"]
        return result

    @contextlib.asynccontextmanager
    async def _expecting(
        self, session: Session, identity: str, seconds: float, *, of_round: bool
    ) -> AsyncIterator[Wait]:
        """Let a request wait for an answer, with errors that tools can read."""
        try:
            async with self.answers.waiting(identity, session.key, seconds, of_round=of_round) as wait:
                yield wait
        except SessionEnded:
            raise ClientRequestError(INVALID_REQUEST, "The client has ended this session.") from None
        except TimeoutError:
            raise
        except OSError as error:
            logger.warning("Redis can't be reached: the client was not asked: %s", error)
            text = "The server cannot ask the client now, because its Redis cannot be reached; retry later."
            raise ClientRequestError(INTERNAL_ERROR, text) from None

    async def answer(self, session: Session, identity: int | str | None, answer: Mapping[str, Any]) -> None:
        """Hand over the client's answer to the call that waits for it, on any replica. Ignore a late answer.

        Args:
            answer: `result` or `error` of the JSON-RPC response.

        Raises:
            Refused: HTTP 400: no request of this session waits for this answer. HTTP 404: the session has ended. HTTP
                503: Redis cannot be reached.
        """
        delivery: Delivery = "unknown"
        text = "The server cannot take the answer now; send it again later."
        if isinstance(identity, str):
            with self._outage.required(lambda _: Refused.retry_later(text, code=INTERNAL_ERROR)):
                delivery = await self._deliver(identity, session.key, encode(answer))
        if delivery == "ended":
            raise unknown_session()
        if delivery == "unknown":
            self.metrics.refused += 1
            raise Refused(400, "No request of the server waits for this response in this session.")

    async def _deliver(self, identity: str, session: str, answer: bytes) -> Delivery:
        """Hand over an answer. Try again for a while, because the official Python client sends it only once."""
        tries = itertools.count()

        async def deliver() -> Delivery:
            return await self.answers.deliver(identity, session, answer, again=next(tries) > 0)

        return await retry_for(deliver)


async def _cancel(write: WriteEvent, identity: str, why: str) -> None:
    """Tell the client that the server no longer waits (2025-11-25, Utilities, "Cancellation")."""
    params = {"requestId": identity, "reason": why}
    message = encode({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
    # RuntimeError: the connection is closed. ClientGone: another replica has taken over the call.
    with contextlib.suppress(TimeoutError, RuntimeError, ClientGone):
        await asyncio.wait_for(write(message), _GOODBYE_SECONDS)


def missing_capability(client: ClientCapabilities, method: str, params: Mapping[str, Any] | None) -> str:
    """Return the capability that a client lacks for a request; return an empty text if it lacks none.

    Elicitation has the modes `form` and `url`. A client that names no mode has the mode `form` (2025-11-25, Client
    features, "Elicitation"). Sampling with tools needs `sampling.tools` (2025-11-25, Client features, "Sampling").
    """
    params = params or {}
    if method == "elicitation/create":
        has = client.elicitation
        if has is None:
            return "elicitation"
        if params.get("mode") == "url":
            return "" if has.url is not None else "elicitation.url"
        return "" if has.form is not None or has.url is None else "elicitation.form"
    if method == "sampling/createMessage":
        if client.sampling is None:
            return "sampling"
        wants_tools = "tools" in params or "toolChoice" in params
        return "sampling.tools" if wants_tools and client.sampling.tools is None else ""
    return "roots" if method == "roots/list" and client.roots is None else ""

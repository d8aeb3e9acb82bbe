"""Settings of handshake-protocol clients that a tool may ask in the middle of a call."""

from pydantic import Field

from anyreplica.settings import CoreSettings
from anyreplica.settings.words import Seconds


class SessionSettings(CoreSettings):
    """Settings of sessions in the handshake protocol (protocol version 2025-11-25 and older)."""

    handshake_session_seconds: Seconds = Field(86400, ge=60)
    """Lifetime of a session id, in seconds. A client with an expired id gets HTTP 404 and starts a new session."""
    client_request_seconds: Seconds = Field(300, gt=0)
    """Time limit for a handshake-protocol client to answer a request of a tool, in seconds. Usually a user answers.
    This time does not count for `CALL_TIMEOUT_SECONDS`."""
    resume_seconds: Seconds = Field(120, gt=0, le=3600)
    """Time in which a client that lost the connection of a call can resume it, in seconds. Without the client, the call
    goes on for this time. Only with `HANDSHAKE_SESSIONS=full`."""
    resume_bytes: int = Field(32 * 1024 * 1024, ge=1024 * 1024)
    """Maximum memory of what a replica keeps for calls that clients can resume, in bytes: the events of the calls, and
    their sealed rounds. With `REDIS_URL` it is in Redis, and each replica may keep as much there. One caller may use at
    most half of it, and the events of one call an eighth. Beyond a limit, calls go on and clients get their results,
    but a client that has lost the connection gets an error. Only with `HANDSHAKE_SESSIONS=full`.

    Besides, sessions may keep as much for their whole time, at all replicas together: half of it are log levels and
    subscriptions, and half the notes about ended sessions. One caller may use at most half of each. Beyond a limit, a
    subscription, a log level or an event stream is refused, or a session cannot be ended before it expires."""
    max_client_requests: int = Field(1000, ge=1)
    """Maximum number of requests to clients that wait for an answer in a replica. One caller may have at most half of
    them. A call beyond a limit gets an error. A call that waits for its client does not count for `MAX_IN_FLIGHT`. The
    memory of all calls that wait has a limit of half of `MAX_BUFFERED_BYTES`, and those of one caller of a quarter."""

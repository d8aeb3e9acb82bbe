"""The span of one attempt of a job."""

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from anyreplica._version import __version__
from anyreplica.http.trace_context import links_to
from anyreplica.process.logs import trace_id

_tracer = trace.get_tracer("anyreplica", __version__)


@contextmanager
def attempt_span(job: str, identity: str, attempt: int, submitted: str) -> Iterator[None]:
    """Run the block, which is one attempt of a job, in a new span.

    `submitted` is the `traceparent` of the job's submission, from `trace_context.current`, or empty. The span has a
    link to the submission's span and is not its child: the submission may have ended days ago, and a job may have
    several attempts.
    """
    about: dict[str, str | int] = {"job.name": job, "job.id": identity, "job.attempt": attempt}
    with _tracer.start_as_current_span(f"job {job}", None, SpanKind.CONSUMER, about, links_to(submitted)) as span:
        own = span.get_span_context()
        token = trace_id.set(trace.format_trace_id(own.trace_id) if own.is_valid else "")
        try:
            yield
        finally:
            trace_id.reset(token)


def attempt_failed(why: str, error: BaseException | None = None) -> None:
    """Mark the span of the current attempt as failed.

    `why` is the error text for callers. `error` is the exception that the job raised, if any.
    """
    span = trace.get_current_span()
    if span.is_recording():
        span.set_attribute("error.type", "job_error" if error is None else type(error).__qualname__)
        if error is not None:
            span.record_exception(error)
        span.set_status(StatusCode.ERROR, why)

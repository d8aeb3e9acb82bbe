"""The id of the trace in log lines."""

import logging
from contextvars import copy_context

import pytest

from anyreplica import Settings
from anyreplica.http.access_log import access_lines
from anyreplica.http.request_record import RECORD, new_record
from anyreplica.process import logs
from anyreplica.process.logs import LogBuffer


@pytest.mark.parametrize(
    ("request_id", "trace_id", "mark"),
    [("", "", ""), ("a1", "", "[a1] "), ("a1", "0af7", "[a1 trace=0af7] "), ("", "0af7", "[trace=0af7] ")],
)
def test_a_line_of_text(request_id: str, trace_id: str, mark: str) -> None:
    """A text line has the trace id behind the request id, or alone if the line belongs to no request."""

    def line() -> str:
        logs.request_id.set(request_id)
        logs.trace_id.set(trace_id)
        return logs.TextFormatter("r%s").format(
            logging.makeLogRecord({"name": "n", "levelname": "INFO", "msg": "words"})
        )

    assert copy_context().run(line).endswith(f" - r%s - n - INFO - {mark}words")


def test_a_line_of_the_access_log(capsys: pytest.CaptureFixture[str]) -> None:
    """A line of the access log has the trace id in the same place."""
    context = copy_context()
    context.run(logs.trace_id.set, "0af7")
    write = access_lines(Settings(), "r", LogBuffer())
    context.run(write, "a1", {"method": "GET", "path": "/version", RECORD: new_record({})}, 200, 0.001)
    assert " - r - anyreplica.access - INFO - [a1 trace=0af7] ✓ 200 GET /version (1.0ms)" in capsys.readouterr().err

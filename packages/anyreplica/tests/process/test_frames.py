"""Which frames of a stack are the author's, and tracebacks without the others."""

import json
import logging
import sys
import traceback
from pathlib import Path
from types import FrameType
from typing import Any

import pydantic
import pytest
from starlette.routing import compile_path

import anyreplica
from anyreplica.process.frames import author_frame, is_caller, is_library, shorten
from anyreplica.process.logs import JsonFormatter, TextFormatter


def error_of(path: Any) -> traceback.TracebackException:
    """Return the error of a function that anyreplica, here Starlette, has called."""
    try:
        compile_path(path)
    except RuntimeError as error:
        return traceback.TracebackException.from_exception(error)
    raise AssertionError


class Failing(str):
    """A path whose method fails. It stands for code of an author."""

    __slots__ = ()

    def startswith(self, *_: Any) -> bool:
        raise RuntimeError("mine")


def frame_in_author_code(found: list[FrameType | None]) -> Any:
    """Return a path that reports the frame in which this file was entered, from the innermost frame."""

    class Noting(str):
        __slots__ = ()

        def startswith(self, *_: Any) -> bool:
            found.append(author_frame(inner()))
            return True

    def inner() -> FrameType:
        return sys._getframe()

    return Noting("/x")


def test_files_are_told_apart() -> None:
    """A file of the server's project belongs to neither."""
    assert is_caller(str(Path(anyreplica.__file__).parent / "app.py"))
    assert not is_caller(__file__)
    assert is_library(json.__file__)
    assert is_library(pydantic.__file__)
    assert not is_library(pytest.__file__)
    assert not is_library(__file__)


def test_the_frame_is_that_of_the_called_function() -> None:
    """It is neither a function that this function calls, nor what has started the server."""
    found: list[FrameType | None] = []
    compile_path(frame_in_author_code(found))
    (frame,) = found
    assert frame is not None
    assert frame.f_code.co_name == "startswith"


def test_no_frame_of_an_author() -> None:
    """The code of a library runs by itself, or was not called through anyreplica."""
    assert author_frame(None) is None
    assert author_frame(sys._getframe()) is None


class Slow(pydantic.BaseModel):
    """A model of an author whose validation notes the frame."""

    value: Any

    @pydantic.field_validator("value")
    @classmethod
    def _note(cls, value: Any) -> Any:
        value.append(author_frame(sys._getframe().f_back))  # without this frame, as if a library ran
        return value


def test_a_library_that_an_author_calls_is_the_authors_code() -> None:
    """The frame is that of the function that calls it."""

    class Validating(str):
        __slots__ = ()

        def startswith(self, *_: Any) -> bool:
            Slow.model_validate({"value": found})
            return True

    found: list[FrameType | None] = []
    compile_path(Validating("/x"))
    assert found[0] is not None
    assert found[0].f_code.co_name == "startswith"


def test_a_traceback_begins_with_the_authors_code() -> None:
    """Without a frame of the author, it stays whole."""
    error = error_of(Failing("/x"))
    assert error.stack[0].name == "error_of"
    del error.stack[0]  # this file stands for the author and for the caller
    assert shorten(error) == 1
    assert [frame.name for frame in error.stack] == ["startswith"]
    del error.stack[0]
    assert shorten(error) == 0


def record() -> logging.LogRecord:
    """Return a record of an error in the author's code, below a frame of a library."""
    with pytest.raises(RuntimeError) as raised:
        compile_path(Failing("/x"))
    found = raised.value.with_traceback(raised.tb.tb_next)
    return logging.LogRecord("x", logging.ERROR, "", 0, "failed", (), (type(found), found, found.__traceback__))


@pytest.mark.parametrize("formatter", [TextFormatter("r"), JsonFormatter("one")])
def test_the_log_says_how_many_frames_are_left_out(formatter: logging.Formatter) -> None:
    """The rest of the traceback is as Python writes it."""
    text = formatter.format(record())
    assert "frames of anyreplica and its libraries: 1 (LOG_LEVEL=DEBUG shows them)" in text
    assert "in startswith" in text
    assert "RuntimeError: mine" in text
    assert "routing.py" not in text


def test_at_debug_the_log_has_all_frames(caplog: pytest.LogCaptureFixture) -> None:
    """A maintainer of the package needs them."""
    with caplog.at_level(logging.DEBUG):
        assert "routing.py" in TextFormatter("r").format(record())

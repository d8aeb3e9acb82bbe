"""The frames of a stack: which of them belong to an author's code, and which to what calls this code."""

import os
import sysconfig
import traceback
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from types import FrameType

_CALLERS = ("anyreplica", "fastmcp", "mcp", "starlette", "uvicorn")
"""Packages that call an author's code."""

_LIBRARIES = (
    "anyio",
    "cachetools",
    "cryptography",
    "docket",
    "fakeredis",
    "httptools",
    "httpx2",
    "httpcore2",
    "jinja2",
    "jsonschema",
    "opentelemetry",
    "orjson",
    "prometheus_client",
    "pydantic",
    "pydantic_settings",
    "redis",
    "referencing",
    "rich",
    "uncalled_for",
    "uvloop",
)
"""Packages that anyreplica and its callers use. An author's code may use them, too."""


@cache
def _folders(names: tuple[str, ...]) -> tuple[str, ...]:
    specs = filter(None, map(find_spec, names))
    return tuple(f"{folder}{os.sep}" for spec in specs for folder in spec.submodule_search_locations or ())


@cache
def _standard() -> str:
    return f"{sysconfig.get_path('stdlib')}{os.sep}"


def is_caller(file: str) -> bool:
    """Return whether a file belongs to anyreplica, or to a library that calls an author's code for it."""
    return file.startswith(_folders(_CALLERS))


def is_library(file: str) -> bool:
    """Return whether a file belongs to Python's standard library, or to a library that anyreplica uses."""
    standard = file.startswith("<frozen ") or (file.startswith(_standard()) and "-packages" not in file)
    return standard or file.startswith(_folders(_LIBRARIES))


def author_frame(innermost: FrameType | None) -> FrameType | None:
    """Return the frame in which a stack has entered an author's code. None: no author's code runs.

    A stack may have further frames of authors outside of anyreplica, such as that of `server/__main__.py`.

    Args:
        innermost: the frame that runs.
    """
    found = None
    for frame, _ in traceback.walk_stack(innermost) if innermost is not None else ():
        file = frame.f_code.co_filename
        if is_caller(file):
            return found
        if not is_library(file):
            found = frame
    return None


def shorten(error: traceback.TracebackException) -> int:
    """Remove the frames outside of the author's code from a traceback, and from those of its causes and contexts.

    A traceback without frames of an author stays as it is.

    Returns:
        The number of frames that were removed.
    """
    removed = 0
    for each in _chain(error):
        files = [frame.filename for frame in each.stack]
        first = next((at for at, file in enumerate(files) if not is_caller(file) and not is_library(file)), 0)
        removed += first
        del each.stack[:first]
    return removed


def _chain(error: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    waiting: list[traceback.TracebackException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is not None:
            yield each
            waiting += (each.__cause__, each.__context__, *(each.exceptions or ()))

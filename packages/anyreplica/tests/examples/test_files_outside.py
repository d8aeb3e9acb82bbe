"""No path leads out of the folder that agents may read."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from fastmcp.exceptions import ToolError
from hypothesis import example, given
from hypothesis import strategies as st

from conftest import generated, until
from tests.examples.conftest import SECRET


def refusal(function: Callable[..., Any], *arguments: Any) -> str:
    """Return the error that the tool gives its caller."""
    with pytest.raises(ToolError) as error:
        function(*arguments)
    return str(error.value)


MISSING = ["nothing", "docs/deep/nothing", "A.TXT", "docs%2fdeep", "%2e%2e/secret.txt", "..\\secret.txt", "a.txt\0"]
MISSING += ["\udcff"]
REFUSED = {
    "the file or folder does not exist": MISSING,
    "the folder does not exist": ["a.txt/b"],
    "it is a symbolic link": ["folder/secret.txt", "inside/deep"],
    "symbolic links are not allowed": ["file", "loop"],
    "this is not a regular file": ["docs", "fifo", "."],
    "not text in UTF-8": ["binary"],
    "a name that is too long": ["x" * 256],
    "the limit is 4096 characters": ["a/" * 2049],
    "without '..'": ["../secret.txt", "docs/../a.txt"],
    "without a leading '/'": ["/etc/passwd"],
}


@pytest.mark.parametrize(("path", "why"), [(path, why) for why, paths in REFUSED.items() for path in paths])
def test_the_error_quotes_only_the_path_of_the_request(files: ModuleType, top: Path, path: str, why: str) -> None:
    """The error states the reason, but does not show where the folder is on this machine."""
    said = refusal(files.read_config, path)
    assert why in said
    assert str(top) not in said
    if path not in ("docs", ".", "docs/../a.txt"):
        assert str(top) not in refusal(files.list_directory, path) + refusal(files.search_logs, "x", path)


def test_a_file_without_permission(files: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A permission error names the path, without the system's error number."""

    def refuse(*_: Any, **named: Any) -> int:
        if "dir_fd" not in named:
            return real(*_, **named)
        raise PermissionError(13, "Permission denied", "/somewhere")

    real = os.open
    monkeypatch.setattr(os, "open", refuse)
    assert refusal(files.read_config, "a.txt") == "'a.txt': the server has no permission to read it"


WORDS = [*("..", ".", "", "~", "...", "%2e%2e", "..%2f", "\0", "..;", ".. ", "．．", "secret.txt", "outside", "a.txt")]
WORDS += [*("docs", "deep", "link", "root-secret", "file", "folder", "absolute", "up", "inside", "disk", "loop", "etc")]
PATHS = st.lists(st.sampled_from(WORDS) | st.text(max_size=3), max_size=6)


@generated(500)
@given(names=PATHS, separator=st.sampled_from(["/", "//", "\\"]), front=st.sampled_from(["", "/", "TOP/"]))
@example(names=["up", "secret.txt"], separator="/", front="")
@example(names=["root-secret", "a.txt"], separator="/", front="../")
@example(names=["a.txt"], separator="/", front="-secret/")
@example(names=["outside", "secret.txt"], separator="/", front="TOP/")
def test_no_path_leads_out(files: ModuleType, top: Path, names: list[str], separator: str, front: str) -> None:
    """No path leads out of the folder, and no file descriptor stays open."""
    path = front.replace("TOP", str(top)) + separator.join(names)
    open_before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for function, arguments in ((files.read_config, ()), (files.list_directory, ()), (files.search_logs, ("hunter2",))):
        try:
            said = function(*arguments, path).model_dump_json()
        except ToolError as error:
            said = str(error).replace(repr(path), "")
        assert SECRET not in said
        assert "secret.txt" not in said
        assert str(top) not in said
    assert len(os.listdir("/proc/self/fd")) == open_before  # noqa: PTH208


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_link_that_appears_during_a_read(files: ModuleType, top: Path, kind: str) -> None:
    """While a link keeps replacing a folder or file, a read returns the real content or an error."""
    swapped, real, link = (top / "root" / f"{kind}-{name}" for name in ("swapped", "real", "link"))
    path, content, target = swapped.name, real, "../secret.txt"
    if kind == "folder":
        real.mkdir()
        path, content, target = f"{swapped.name}/a.txt", real / "a.txt", "../outside"
    content.write_text("fine")
    link.symlink_to(target)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for one in (real, link):
                one.rename(swapped)
                swapped.rename(one)

    seen = set()

    def read() -> bool:
        for _ in range(3000):
            try:
                seen.add(files.read_config(path).text)
            except ToolError as error:
                seen.add(str(error))
        return "fine" in seen and any("symbolic link" in said for said in seen)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        until(read, "the path was read both as a file and as a link")
        assert files.search_logs("hunter2").found == []
    finally:
        stop.set()
        swapping.join()
    assert SECRET not in seen

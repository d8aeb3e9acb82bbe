"""Tests of the file tools: list, read and search."""

from pathlib import Path
from types import ModuleType

import pytest

from conftest import StartServer
from tests.calls import call, text
from tests.examples.conftest import LONG, SECRET
from tests.starts import start

pytestmark = pytest.mark.slow


def test_folders_are_listed_without_links(files: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list leaves out links, special files, and names that JSON cannot contain, and says if it was cut."""
    everything = [".hidden", "a.txt", "back\\slash", "binary", "docs/", "long.txt"]
    for folder in (".", "", ".//"):
        assert files.list_directory(folder).model_dump() == {"found": everything, "complete": True}
    assert files.list_directory("./docs//").found == ["docs/..name", "docs/deep/"]
    monkeypatch.setattr(files, "_MOST_FOUND", 2)
    assert files.list_directory().model_dump() == {"found": [".hidden", "a.txt"], "complete": False}


def test_files_are_read(files: ModuleType) -> None:
    """A file is read whatever its name is, and a large one in parts that split and lose no character."""
    names = {"a.txt": "alpha\nBeta\n", "./docs//deep/b ü%2e.txt": "beta", "docs/..name": "gamma"}
    names["back\\slash"] = "delta"
    for path, content in names.items():
        expected = {"text": content, "size": len(content.encode()), "next_offset": None}
        assert files.read_config(path).model_dump() == expected
    parts = [files.read_config("long.txt")]
    while parts[-1].next_offset is not None:
        parts.append(files.read_config("long.txt", parts[-1].next_offset))
    assert len(parts) > 3
    assert "".join(part.text for part in parts) == LONG
    assert files.read_config("long.txt", 10**30).model_dump(exclude={"size"}) == {"text": "", "next_offset": None}


def test_words_are_found_in_any_case(files: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search finds words in any case except behind links, and says if a limit made it incomplete."""
    found = files.search_logs("bEtA")
    assert sorted(found.found) == [".hidden:1: BETA", "a.txt:2: Beta", "docs/deep/b ü%2e.txt:1: beta"]
    assert found.complete
    assert files.search_logs("beta", "docs/deep/").found == ["docs/deep/b ü%2e.txt:1: beta"]
    assert files.search_logs("hunter2").found == []
    for name, least in {"_MOST_FOUND": 2, "_SEARCHED_BYTES": 1, "_SEARCHED_BYTES_OF_A_FILE": 10}.items():
        with monkeypatch.context() as patch:
            patch.setattr(files, name, least)
            assert not files.search_logs("beta").complete


def test_a_replica_serves_the_pack(start_server: StartServer, top: Path) -> None:
    """A replica returns files as structured results. A call with an invalid path gets a tool error."""
    url = start_server(MCP_COMPONENTS="server,examples.files", FILES_ROOT=str(top / "root")).url
    assert "docs/" in call(url, "list_directory")["structuredContent"]["found"]
    assert call(url, "read_config", {"path": "a.txt"})["structuredContent"]["text"] == "alpha\nBeta\n"
    assert call(url, "search_logs", {"words": "alpha"})["structuredContent"]["found"] == ["a.txt:1: alpha"]
    for path in ("../secret.txt", str(top / "secret.txt"), "folder/secret.txt", "file", "fifo", "a.txt\0", "binary"):
        reply = call(url, "read_config", {"path": path})
        assert reply["isError"]
        assert text(reply).startswith(repr(path))
        assert SECRET not in str(reply)


@pytest.mark.parametrize(("root", "why"), [("", "FILES_ROOT: required"), ("/no/such", "FILES_ROOT=/no/such: No such")])
def test_no_start_without_a_folder(root: str, why: str) -> None:
    """A wrong FILES_ROOT stops the start with one line that names the variable."""
    settings = {"MCP_COMPONENTS": "examples.files", "FILES_ROOT": root}
    done = start("check", fresh="examples.files.tools", **settings)
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert line.startswith("examples/files/tools.py:")
    assert why in line

"""What a peer is built with, once, into a folder outside the tree."""

import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).parent
_BY_HAND = {"node_modules", "target"}
"""Folders that a build in the tree leaves there."""
_PATIENCE = 1_200.0
"""Seconds of one command; Rust takes two minutes of a free core."""


class NotBuilt(Exception):
    """The peer can't be measured; `str()` says why in one line, and how to get it."""


@dataclass(frozen=True)
class Kit:
    """Sources, the toolchain that builds them, and what they depend on.

    What is built is kept by a digest of the sources, the commands and the toolchain's version: none can be another.
    """

    name: str
    """Of the folder with the sources."""
    tools: tuple[str, ...]
    """The programs it takes; the first says its version."""
    version: tuple[str, ...]
    """The command that says it."""
    get: str
    """How to get the tools."""
    commands: tuple[tuple[str, ...], ...]
    keep: tuple[str, ...]
    """The files and folders that are kept of what was built."""
    pinned: Callable[[Path], dict[str, str]]
    """The versions that the sources' folder asks for, by name."""
    prepare: Callable[[Path], None] = lambda _: None
    """Done in the copy of the sources, before the commands."""

    @property
    def versions(self) -> dict[str, str]:
        """Of the toolchain and of what the peer depends on, by name.

        Raises:
            NotBuilt: a tool is missing, or doesn't say its version.
        """
        said = self._toolchain()
        found = re.search(r"\d+(\.\d+)+", said)
        return {self.tools[0]: found[0] if found else said, **self.pinned(_HERE / self.name)}

    @property
    def folder(self) -> Path:
        """Where it is when it has been built.

        Raises:
            NotBuilt: as `versions`.
        """
        digest = hashlib.sha256(f"{self._toolchain()} {self.commands}".encode())
        for file in self._sources():
            digest.update(file.name.encode() + file.read_bytes())
        return _cache() / f"{self.name}-{digest.hexdigest()[:16]}"

    def build(self, cores: set[int]) -> None:
        """Build it, on these CPU cores, unless that has been done.

        Raises:
            NotBuilt: as `versions`; or a command failed.
            OSError: the folder can't be written.
        """
        if self.folder.exists():
            return
        _cache().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="building-", dir=_cache()) as temporary:
            work, kept = Path(temporary) / "work", Path(temporary) / "kept"
            for file in self._sources():
                copy = work / file.relative_to(_HERE / self.name)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, copy)
            self.prepare(work)
            for command in self.commands:
                run(command, work, cores)
            kept.mkdir()
            for name in self.keep:
                (work / name).rename(kept / Path(name).name)
            if not self.folder.exists():  # another run may have been quicker
                kept.rename(self.folder)

    def _toolchain(self) -> str:
        for tool in self.tools:
            if shutil.which(tool) is None:
                raise NotBuilt(f"{tool} is not installed: {self.get}")
        return run(self.version, _HERE).strip()

    def _sources(self) -> list[Path]:
        folder = _HERE / self.name
        files = sorted(file for file in folder.rglob("*") if file.is_file())
        return [file for file in files if _BY_HAND.isdisjoint(file.relative_to(folder).parts)]


def run(command: Sequence[str], folder: Path, cores: set[int] | None = None) -> str:
    """Run a command to its end and return what it printed.

    Args:
        cores: the CPU cores that it may use; None: those of this process.

    Raises:
        NotBuilt: it failed, or took too long.
    """
    pipe = subprocess.PIPE
    with (
        subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, start_new_session=True
        ) as process,
        _ended(process),
    ):
        if cores:
            os.sched_setaffinity(process.pid, cores)
        try:
            output, errors = process.communicate(timeout=_PATIENCE)
        except subprocess.TimeoutExpired as error:
            raise NotBuilt(f"{' '.join(command)} took more than {_PATIENCE:g} s") from error
    if process.returncode:
        lines = [line.strip() for line in (output + errors).splitlines() if line.strip()]
        said = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "it printed nothing")
        raise NotBuilt(f"{' '.join(command)} failed with {process.returncode}: {said}")
    return output


@contextlib.contextmanager
def _ended(process: subprocess.Popen[str]) -> Iterator[None]:
    """End the command and the compilers that it has started, if the block doesn't end well."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        raise


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mcp-swarm" / "peers"

"""The build of a peer from its sources in a cache folder outside the repository."""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).parent
_PATIENCE = 1_200.0
"""Time limit of one command in seconds; Rust needs two minutes of a free core."""
_IGNORED = ("node_modules", "target")
"""Folders that a build in the repository leaves behind."""


class NotBuilt(Exception):
    """The peer cannot be measured; `str()` says why in one line, and what to install."""


@dataclass(frozen=True)
class Kit:
    """Sources in a folder of this package, and the toolchain that builds them."""

    name: str
    """Folder with the sources."""
    tools: tuple[str, ...]
    """Programs that the build needs."""
    version: tuple[str, ...]
    """Command that prints the version of the first tool."""
    install: str
    """Text that says what to install."""
    command: tuple[str, ...]
    dependency: tuple[str, str]
    """File of the sources, and a pattern in it with two groups: name and version of an SDK."""
    prepare: Callable[[Path], None] = lambda _: None
    """Function that changes the copy of the sources before the command runs."""

    @property
    def folder(self) -> Path:
        """Folder of the build; its name has a digest of the sources and the command."""
        digest = hashlib.sha256(str(self.command).encode())
        for file in sorted((_HERE / self.name).rglob("*")):
            if file.is_file() and not set(_IGNORED) & set(file.parts):
                digest.update(file.name.encode() + file.read_bytes())
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return cache / "anyreplica" / "peers" / f"{self.name}-{digest.hexdigest()[:16]}"

    @property
    def built(self) -> bool:
        """True if the build is complete."""
        return (self.folder / ".built").exists()

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the toolchain and of the SDKs, by name.

        Raises:
            NotBuilt: A tool is missing.
        """
        for tool in self.tools:
            if shutil.which(tool) is None:
                raise NotBuilt(f"{tool} is not installed: {self.install}")
        text = run(self.version, _HERE)
        number = re.search(r"\d+(\.\d+)+", text)
        file, pattern = self.dependency
        sdks = dict(re.findall(pattern, (_HERE / self.name / file).read_text()))
        return {self.tools[0]: number[0] if number else text.strip(), **sdks}

    def build(self) -> None:
        """Build the peer, unless the build is complete.

        Raises:
            NotBuilt: A tool is missing, or the command failed.
            OSError: The folder cannot be written.
        """
        if self.built or not self.versions:
            return
        shutil.copytree(_HERE / self.name, self.folder, ignore=shutil.ignore_patterns(*_IGNORED), dirs_exist_ok=True)
        self.prepare(self.folder)
        run(self.command, self.folder)
        (self.folder / ".built").touch()


def run(command: Sequence[str], folder: Path) -> str:
    """Run a command and return its output.

    Raises:
        NotBuilt: The command failed or took too long.
    """
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=_PATIENCE)
    except subprocess.TimeoutExpired as error:
        raise NotBuilt(f"{' '.join(command)} took more than {_PATIENCE:g} s") from error
    if done.returncode:
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        reason = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "no output")
        raise NotBuilt(f"{' '.join(command)} failed with {done.returncode}: {reason}")
    return done.stdout

"""The folder for temporary Unix sockets."""

import os
import tempfile

_LONGEST = 71
"""Maximum length of the folder's path in bytes. multiprocessing adds 32 bytes, and the path of a socket has at most 107
bytes on Linux and 103 on macOS."""


def for_sockets() -> str:
    """Return the folder for temporary files (`TMPDIR`), or `/tmp` if its path is too long for the path of a socket."""
    folder = tempfile.gettempdir()
    return folder if len(os.fsencode(folder)) <= _LONGEST else "/tmp"  # noqa: S108

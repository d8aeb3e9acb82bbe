"""The console's page: one HTML document with its style and its script inside.

A page of several files could get them from replicas of two versions during an update. So the script is one text: the
modules of the folder `page` one after the other, without their imports and exports. They share one scope, so each name
at the top level exists once.
"""

import functools
import gzip
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from cachetools import LRUCache

from anyreplica.feature import Replica
from anyreplica.features.console.settings import ConsoleSettings
from anyreplica.mcp.catalogue import version_of
from anyreplica.routes.home import connection, hash_source, page_file, page_template

_FOLDER = Path(__file__).parent / "page"

_MODULES = (
    "json",
    "dom",
    "schema",
    "inputs",
    "fields",
    "form",
    "events",
    "protocol",
    "client",
    "login",
    "content",
    "snippets",
    "questions",
    "call",
    "components",
    "jobs",
    "chart",
    "swarm",
    "main",
)
"""The modules, each one after those that it imports."""

_LEVEL = 6
"""Level of the compression. Higher levels take twice the time for the last percent."""

_DOCUMENTS = 8
"""Number of documents that a replica keeps."""

_EVERY_SECONDS = 1.0
"""Minimum time between two compressions of the page in a replica, in seconds."""

_IMPORTS = re.compile(r'^import .* from "\./\w+\.js";\n', re.MULTILINE)
_EXPORTS = re.compile(r"^export ", re.MULTILINE)


@functools.cache
def script() -> str:
    """Return the script of the page."""
    texts = (page_file(_FOLDER, f"{name}.js") for name in _MODULES)
    return "".join(_EXPORTS.sub("", _IMPORTS.sub("", text)) for text in texts)


def render(settings: ConsoleSettings, replica: Replica, base: str) -> str:
    """Return the HTML of the page.

    Args:
        settings: The settings.
        replica: The replica that serves the page.
        base: The URL of the server, see `base_url`.
    """
    return page_template("console.html", _FOLDER).render(
        connection(settings, base, guarded=replica.is_guarded),
        css=page_file(_FOLDER, "console.css"),
        script=script(),
        version=version_of(replica.mcp),
        replica=replica.name,
    )


class Documents:
    """The page as bytes, by the URL of the server.

    A page contains the URL at which the browser has opened it, and a caller can put any host into this URL. So a
    replica keeps only a few pages, and compresses at most one page per second on the event loop. Other pages are
    compressed like any large reply: less, and in a thread.

    Args:
        render: Returns the page for a URL of the server.
        clock: Returns the time in seconds.
    """

    def __init__(self, render: Callable[[str], str], clock: Callable[[], float] = time.monotonic) -> None:
        self._render = render
        self._clock = clock
        self._kept: LRUCache[str, tuple[bytes, bytes]] = LRUCache(_DOCUMENTS)
        self._next = clock()

    def document(self, base: str) -> tuple[bytes, bytes | None]:
        """Return a page, and the same page compressed with gzip, or None if the replica must not compress it now.

        Args:
            base: The URL of the server, see `base_url`.
        """
        kept = self._kept.get(base)
        if kept is not None:
            return kept
        plain, now = self._render(base).encode(), self._clock()
        if now < self._next:
            return plain, None
        self._next = now + _EVERY_SECONDS
        compressed = gzip.compress(plain, _LEVEL, mtime=0)
        self._kept[base] = plain, compressed
        return plain, compressed


def content_security_policy(issuers: Iterable[str]) -> str:
    """Return the Content-Security-Policy of the page. It allows only the page's own script and style.

    Args:
        issuers: The origins of other servers that the page may send requests to.
    """
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {hash_source(script())}",
            f"style-src {hash_source(page_file(_FOLDER, 'console.css'))}",
            " ".join(("connect-src 'self'", *sorted(issuers))),
            "img-src data:",
            "media-src data:",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
        )
    )

"""A replica that is fuzzed, and what can be seen of it from outside."""

import contextlib
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from conftest import ROOT, Server, until
from tests.calls import ENVELOPE, HEADERS, VERSION, request
from tests.fuzz import callers

COMPONENTS = ["tests.sample.tools", "tests.sample.resources", "tests.sample.prompts", "tests.fuzz.pack"]
COMPONENTS += ["tests.packs.results.arguments", "tests.packs.state"]

_KEY = {"Authorization": f"Bearer {callers.KEY.decode()}"}
_STATELESS = {"MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/call", "Mcp-Name": "echo"}
_TELLTALE = re.compile(rb"Traceback|site-packages|\w\.py\b|\b[A-Z]\w+(?:Error|Exception)\b|" + re.escape(bytes(ROOT)))
"""What no caller is told: code, its files, the names of exceptions."""
_MISTAKES = ("Traceback", "Unhandled error", "Fatal error")
"""In a record of the log: an exception that nobody expected."""
_KNOWN = "fastmcp.exceptions.PromptError: Could not convert argument"
"""In the one record that has a traceback although the caller is to blame (TODO.md, known limits)."""
_RECORD = re.compile(r"\n(?=\S)")
"""Between two records of the log: only the first line of one begins at the margin."""


class Replica:
    """A replica with all that looks at what callers send."""

    def __init__(self, folder: Path) -> None:
        """Start it; it keeps its files in a folder."""
        self._audit = folder / "audit.jsonl"
        self._server = Server(
            folder / "log",
            MCP_COMPONENTS=",".join(COMPONENTS),
            AUDIT_LOG=str(self._audit),
            LOG_LEVEL="INFO",
            MAX_BODY_BYTES=str(256 * 1024),
            RECEIVE_TIMEOUT_SECONDS="1",
            JOBS_WAIT_SECONDS="0",
            **callers.settings(folder),
        )
        self._log = self._server.log.open("rb")
        self._rest = ""
        """A line of the log that isn't whole yet."""
        self._usual: set[bytes] = set()
        self.port = self._server.port
        self.pid = self._server.process.pid
        self.job = ""
        """The id of a job that it has done."""

    def wait_ready(self) -> None:
        """Wait until it serves, has done a job, and has told its catalogue."""
        self._server.wait_ready()
        with self._client() as client:
            submission = {"job": "counted", "params": {"rows": 5}}
            self.job = client.post("/jobs", json=submission, headers=_KEY).json()["id"]
            until(lambda: client.get(f"/jobs/{self.job}/result", headers=_KEY).status_code == 200, "the job is done")
            for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list"):
                told = client.post("/mcp", json=request(method), headers={**HEADERS, **_KEY})
                self._usual |= set(_TELLTALE.findall(told.content))

    def _client(self) -> httpx.Client:
        return httpx.Client(base_url=self._server.url, verify=False, timeout=20)

    def call(self) -> float:
        """Call a tool in both protocols, each on a new connection; returns the seconds that the slower one took.

        Raises:
            AssertionError: it isn't answered as it should be.
        """
        seconds = []
        for headers, meta in ({}, {}), (_STATELESS, {"_meta": ENVELOPE}):
            params = {"name": "echo", "arguments": {"message": "well"}, **meta}
            with self._client() as client:
                begun = time.perf_counter()
                reply = client.post("/mcp", json=request("tools/call", params), headers={**HEADERS, **_KEY, **headers})
                seconds.append(time.perf_counter() - begun)
            assert reply.status_code == 200, reply.text
            assert reply.json()["result"]["content"] == [{"type": "text", "text": "well"}], reply.text
        return max(seconds)

    def tells(self, reply: bytes) -> list[str]:
        """What a reply tells that it shouldn't; the catalogue's own words may be told."""
        return sorted({word.decode() for word in _TELLTALE.findall(reply)} - {word.decode() for word in self._usual})

    def mistakes(self) -> list[str]:
        """The records of the log since the last look that tell of a mistake of the server's: first and last line."""
        text = self._rest + self._log.read().decode(errors="replace")
        text, _, self._rest = text.rpartition("\n")
        mistakes = [record for record in _RECORD.split(text) if any(word in record for word in _MISTAKES)]
        lines = [record.splitlines() for record in mistakes if _KNOWN not in record]
        return [f"{first} … {last.strip()}" for first, *_, last in lines]

    @property
    def memory_mb(self) -> float:
        """Resident memory in MB (10⁶ bytes)."""
        rollup = Path(f"/proc/{self.pid}/smaps_rollup").read_text()
        found = re.search(r"^Rss: +(\d+) kB", rollup, re.MULTILINE)
        assert found is not None
        return int(found[1]) * 1024 / 1e6

    def files(self) -> int:
        """How many files it has open, once connections that have ended are closed: when two looks find as many."""
        looks = [-1]

        def settled() -> bool:
            looks.append(len(list(Path(f"/proc/{self.pid}/fd").iterdir())))
            return looks[-1] == looks[-2]

        until(settled, "the number of open files is the same for a moment")
        return looks[-1]

    def stop(self) -> int:
        """End it, if it runs; returns its exit code."""
        self._log.close()
        return self._server.stop()

    def audit(self) -> str:
        """What `python -m server audit verify` says of the audit log; empty if it is intact."""
        command = [sys.executable, "-m", "tests.sample", "audit", "verify", str(self._audit)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        return "" if done.returncode == 0 else done.stdout + done.stderr


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Replica]:
    """A replica, as long as it is needed."""
    replica = Replica(folder)
    try:
        replica.wait_ready()
        yield replica
    finally:
        replica.stop()

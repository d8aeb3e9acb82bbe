"""A replica for fuzz tests, with methods that read its log, memory, open files and audit log."""

import contextlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx

from conftest import ROOT, Server, run, until
from tests.calls import ENVELOPE, HEADERS, VERSION, request
from tests.fuzz import callers

COMPONENTS = ["server.tools", "server.resources", "server.prompts", "tests.fuzz.pack"]
COMPONENTS += ["tests.packs.results.arguments", "tests.packs.state"]

_KEY = {"Authorization": f"Bearer {callers.KEY.decode()}"}
_STATELESS = {"MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/call", "Mcp-Name": "echo"}
_TELLTALE = re.compile(rb"Traceback|site-packages|\w\.py\b|\b[A-Z]\w+(?:Error|Exception)\b|" + re.escape(bytes(ROOT)))
"""Text that no caller may see: code, file names, names of exceptions."""
_MISTAKES = ("Traceback", "Unhandled error", "Fatal error")
"""Words in a log record that show an unexpected exception."""
_KNOWN = "fastmcp.exceptions.PromptError: Could not convert argument"
"""Text in the only log record that has a traceback although the caller is to blame (TODO.md, known limits)."""
_RECORD = re.compile(r"\n(?=\S)")
"""The boundary between two log records: only the first line of a record begins at the margin."""


class Replica:
    """A replica with every check of callers' input enabled."""

    def __init__(self, folder: Path) -> None:
        """Start the replica; it keeps its files in a folder."""
        self._audit = folder / "audit.jsonl"
        settings = {"MCP_COMPONENTS": ",".join(COMPONENTS), "AUDIT_LOG": str(self._audit), "LOG_LEVEL": "INFO"}
        settings |= {"MAX_BODY_BYTES": str(256 * 1024), "RECEIVE_TIMEOUT_SECONDS": "1", "JOBS_WAIT_SECONDS": "0"}
        self._server = Server(folder / "log", **settings, **callers.settings(folder))
        self._log = self._server.log.open("rb")
        self._rest = ""
        """The beginning of a log line that is not complete yet."""
        self._usual: set[bytes] = set()
        self._script = b""
        """The script of the console. Its own names of errors are no names of Python's."""
        self.port = self._server.port
        self.pid = self._server.process.pid
        self.job = ""
        """Id of a finished job."""

    def wait_ready(self) -> None:
        """Wait until the replica is ready, has finished a job, and has returned its lists of components."""
        self._server.wait_ready()
        with self._client() as client:
            submission = {"job": "counted", "params": {"rows": 5}}
            self.job = client.post("/jobs", json=submission, headers=_KEY).json()["id"]
            result = f"/jobs/{self.job}/result"
            until(lambda: client.get(result, headers=_KEY).status_code == 200, "the job has a result")
            for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list"):
                told = client.post("/mcp", json=request(method), headers={**HEADERS, **_KEY})
                self._usual |= set(_TELLTALE.findall(told.content))
            _, _, script = client.get("/").content.partition(b'<script type="module">')
            self._script = script.partition(b"</script>")[0]

    def _client(self) -> httpx.Client:
        return httpx.Client(base_url=self._server.url, verify=False, timeout=60)

    def call(self) -> None:
        """Call a tool in both protocol families, each on a new connection, and check the replies."""
        for headers, meta in ({}, {}), (_STATELESS, {"_meta": ENVELOPE}):
            params = {"name": "echo", "arguments": {"message": "well"}, **meta}
            with self._client() as client:
                reply = client.post("/mcp", json=request("tools/call", params), headers={**HEADERS, **_KEY, **headers})
            assert reply.status_code == 200, reply.text
            assert reply.json()["result"]["content"] == [{"type": "text", "text": "well"}], reply.text

    def forbidden(self, reply: bytes) -> list[str]:
        """Return the forbidden texts in a reply. Texts that also occur in the lists of components are allowed."""
        searched = reply.replace(self._script, b"")
        return sorted({word.decode() for word in _TELLTALE.findall(searched)} - {word.decode() for word in self._usual})

    def mistakes(self) -> list[str]:
        """Return the log records since the last call that show a fault of the server, with first and last line."""
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
        """Return the number of open files as soon as two looks give the same number."""
        looks = [-1]

        def settled() -> bool:
            looks.append(len(list(Path(f"/proc/{self.pid}/fd").iterdir())))
            return looks[-1] == looks[-2]

        until(settled, "the number of open files no longer changes")
        return looks[-1]

    def stop(self) -> int:
        """Stop the replica if it runs, and return its exit code."""
        self._log.close()
        return self._server.stop()

    def audit(self) -> str:
        """Return the output of `python -m server audit verify`, or an empty text if the log is intact."""
        done = run(sys.executable, "-m", "server", "audit", "verify", str(self._audit))
        return "" if done.returncode == 0 else done.stdout + done.stderr


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Replica]:
    """Run a replica until the block ends."""
    replica = Replica(folder)
    try:
        replica.wait_ready()
        yield replica
    finally:
        replica.stop()

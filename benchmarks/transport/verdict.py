"""What the figures mean, in words that follow from them."""

from benchmarks.study.study import Table
from benchmarks.study.words import number

_ALIKE = 0.1
"""Figures that differ by less than this are called alike."""

_SHORT = {
    "stdio-kept": "FastMCP's server over stdio",
    "tcp-stock": "the same over TCP",
    "tcp": "this project's over TCP",
    "unix": "this project's over a Unix socket",
}
_NOTHING = "Not all of it could be measured, so nothing follows from the rest."
_LIMITS = (
    "What this can't show: a network, and clients with cores of their own. Whatever the figures, a stdio process can "
    "be called only by the program that started it, and a Unix socket only from its machine."
)


class Verdict:
    """The words.

    Args:
        whole: one client and all at once, by transport.
        client: how much of it is the client, likewise.
        clients: how many are all.
    """

    def __init__(self, whole: Table, client: Table, clients: int) -> None:
        self._clients = clients
        self._of = {
            (row.name, column): spread.median
            for row in (*whole.rows, *client.rows)
            for column, spread in row.figures.items()
        }

    def words(self) -> tuple[str, str]:
        """The sentence and the paragraph."""
        try:
            return self._sentence(), " ".join((self._many(), self._one(), self._unix(), self._advice(), _LIMITS))
        except KeyError:
            return _NOTHING, _NOTHING

    def _sentence(self) -> str:
        less = self._less()
        verdict = "It holds" if all(less) else "It holds in part" if any(less) else "It does not hold"
        return (
            f"{verdict}: {self._clients} clients take {self._n('tcp', 'rss_n')} MB behind one HTTP server and "
            f"{self._n('stdio-fresh', 'rss_n')} MB with a stdio process each, and connect in "
            f"{self._n('tcp', 'connect')} ms or {self._n('stdio-fresh', 'connect')} ms; "
            f"a call of one client takes {self._calls()}."
        )

    def _less(self) -> list[bool]:
        """Of what HTTP takes less than stdio, by what each client costs; CPU time is the server's rather than this."""
        return [self._of["tcp", name] < self._of["stdio-fresh", name] for name in ("rss_n", "connect")]

    def _many(self) -> str:
        return (
            f"Many clients: a stdio process for each of {self._clients} takes {self._n('stdio-fresh', 'rss_n')} MB in "
            f"all and {self._n('stdio-fresh', 'connect')} ms to connect, one HTTP server {self._n('tcp', 'rss_n')} MB "
            f"and {self._n('tcp', 'connect')} ms. One stdio process that all callers in one program share takes "
            f"{self._n('stdio-kept', 'rss_n')} MB, and {self._n('stdio-kept', 'mean_n')} ms a call with "
            f"{self._clients} at once, beside {self._n('tcp', 'mean_n')} ms over HTTP. A call costs FastMCP's server "
            f"{self._n('stdio-kept', 'cpu')} µs of CPU time over stdio, and this project's {self._n('tcp', 'cpu')} µs "
            f"over HTTP; with FastMCP's client, which asks for progress with each call, "
            f"{self._n('stdio-kept', 'fastmcp_cpu')} µs and {self._n('tcp', 'fastmcp_cpu')} µs."
        )

    def _one(self) -> str:
        stdio, http = self._of["stdio-kept", "p50"], self._of["tcp-stock", "p50"]
        if _alike(stdio, http):
            compared = "stdio is about as quick as HTTP, and nobody has to listen"
        elif stdio < http:
            compared = f"stdio is quicker, HTTP takes {number(http / stdio)} times as long"
        else:
            compared = f"HTTP is quicker, stdio takes {number(stdio / http)} times as long, but nobody has to listen"
        return (
            f"One client, of FastMCP's server: {compared} ({self._calls()}). Of a call of this project's over TCP "
            f"{self._n('tcp', 'share')} % is the "
            f"SDK's client; written by hand it takes {self._n('tcp', 'hand_p50')} ms, over stdio "
            f"{self._n('stdio-kept', 'hand_p50')} ms."
        )

    def _unix(self) -> str:
        unix, tcp = (self._of[name, "hand_p50"] for name in ("unix", "tcp"))
        if _alike(unix, tcp):
            gain = "changes little"
        elif unix < tcp:
            gain = f"saves {number(100 * (1 - unix / tcp))} % of what is not the client's"
        else:
            gain = f"adds {number(100 * (unix / tcp - 1))} % to what is not the client's"
        return f"A Unix socket in place of TCP {gain} ({number(unix)} ms by hand); permissions say who may connect."

    def _advice(self) -> str:
        shared = "HTTP for a server that many share" if all(self._less()) else "no rule for a server that many share"
        return f"So: {shared}; stdio where one program starts a server for itself and nobody else needs it."

    def _calls(self) -> str:
        return ", ".join(f"{self._n(name, 'p50')} ms ({title})" for name, title in _SHORT.items())

    def _n(self, row: str, column: str) -> str:
        return number(self._of[row, column])


def _alike(one: float, other: float) -> bool:
    return abs(one - other) <= _ALIKE * max(one, other)

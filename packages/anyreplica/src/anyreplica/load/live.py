"""The progress of a run: a live view on a terminal, otherwise one line every 5 seconds."""

from collections import Counter, deque
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live as RichLive
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from anyreplica.load.latency import percentile
from anyreplica.load.options import Options
from anyreplica.load.worker import LiveTick

_WINDOW = 1.0
"""Length of the window for the current rate and latencies, in seconds."""
_LINE_EVERY = 5.0
_BAR = 30


class Live:
    """A progress display that is fed with `LiveTick`s."""

    def __init__(self, console: Console, options: Options) -> None:
        self._console = console
        self._options = options
        self._ticks: deque[LiveTick] = deque()
        self._at = 0.0
        self._done = 0
        self._failed = 0
        self._replicas: Counter[str] = Counter()
        self._next_line = _LINE_EVERY
        self._live = RichLive(console=console, transient=True, auto_refresh=False) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def add(self, tick: LiveTick) -> None:
        """Add a tick and refresh the display."""
        self._ticks.append(tick)
        self._at = max(self._at, tick.at)
        while self._ticks[0].at < self._at - _WINDOW:
            self._ticks.popleft()
        self._done += len(tick.seconds) + tick.failed
        self._failed += tick.failed
        self._replicas += tick.replicas
        if self._live:
            self._live.update(self._view(), refresh=True)
        elif self._at >= self._next_line:
            self._next_line += _LINE_EVERY
            self._console.print(self._line(), highlight=False)

    def _now(self) -> tuple[float, str, str]:
        """Return the rate, p50 and p99 of the last second; p50 and p99 as text."""
        span = min(_WINDOW, self._at) or 1.0
        seconds = sorted(value for tick in self._ticks for value in tick.seconds)
        rate = (len(seconds) + sum(tick.failed for tick in self._ticks)) / span
        p50, p99 = (f"{percentile(seconds, p) * 1000:.1f} ms" if seconds else "–" for p in (50, 99))
        return rate, p50, p99

    def _line(self) -> str:
        rate, p50, p99 = self._now()
        return f"{self._at:5.0f} s  {self._done:,} done  {rate:,.0f}/s  p50 {p50}  p99 {p99}  {self._failed} failed"

    def _view(self) -> RenderableType:
        rate, p50, p99 = self._now()
        failed = f"[red]{self._failed:,} failed[/]" if self._failed else "0 failed"
        head = Text.from_markup(
            f"  [bold]{rate:,.0f}[/]/s   p50 [bold]{p50}[/]   p99 [bold]{p99}[/]   {self._done:,} done   {failed}"
        )
        table = Table.grid(padding=(0, 1))
        most = max(self._replicas.values(), default=1)
        for name, count in sorted(self._replicas.items()):
            bar = "█" * round(_BAR * count / most)
            table.add_row(f"  {escape(name)}", f"[cyan]{bar:<{_BAR}}[/]", f"{count:,}")
        progress = Table.grid(padding=(0, 1))
        progress.add_row("  ", ProgressBar(total=1, completed=self._share(), width=_BAR + 10), f"{self._at:.0f} s")
        return Group(Text(), head, Text(), table, Text(), progress)

    def _share(self) -> float:
        """Return the finished share of the run, from 0 to 1."""
        shares = [0.0]
        if self._options.seconds:
            shares.append(self._at / self._options.seconds)
        if self._options.requests and not self._options.what.get("session"):
            shares.append(self._done / self._options.requests)
        return min(1.0, max(shares))

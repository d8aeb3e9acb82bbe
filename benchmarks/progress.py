"""What is being done, on stderr while that is a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


@contextmanager
def progress(console: Console, total: int) -> Iterator[Callable[[str], None]]:
    """Show a bar that goes away at the end; gives what to call with the name of each of `total` steps as it begins."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    # Drawn between two measurements only: a thread that draws meanwhile would take time from the load.
    with Progress(
        *columns, console=console, transient=True, auto_refresh=False, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("", total=total, completed=-1)

        def step(what: str) -> None:
            bar.update(task, advance=1, description=what)
            bar.refresh()

        yield step

"""A progress bar on stderr while stderr is a terminal."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn


class Steps:
    """The steps of a run. Call it with the name of each step when the step begins."""

    def __init__(self, bar: Progress, task: TaskID) -> None:
        self._bar = bar
        self._task = task
        self._begun = self._total = 0

    def __call__(self, name: str) -> None:
        """Show the next step."""
        self._begun += 1
        self.expect(max(0, self._begun - self._total))
        self._bar.update(self._task, completed=self._begun - 1, description=name)
        self._bar.refresh()

    def expect(self, more: int) -> None:
        """Add a number of steps to the total."""
        self._total += more
        self._bar.update(self._task, total=self._total)


@contextmanager
def progress(console: Console, total: int) -> Iterator[Steps]:
    """Show a bar for a number of steps; the bar disappears at the end."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    # The bar is drawn only between two measurements: a drawing thread would take CPU time from the load.
    with Progress(
        *columns, console=console, transient=True, auto_refresh=False, disable=not console.is_terminal
    ) as bar:
        steps = Steps(bar, bar.add_task("", total=total))
        steps.expect(total)
        yield steps

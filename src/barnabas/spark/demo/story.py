"""What the demo says while it runs: one line a step, with a spinner or a progress bar in between."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)


class Story:
    """Numbered steps on a console, and how long each took."""

    def __init__(self, console: Console, steps: int) -> None:
        self.console = console
        self.timings: list[tuple[str, float]] = []
        self._steps = steps

    @contextmanager
    def step(self, title: str) -> Iterator[Callable[[str], None]]:
        """A step; call what it yields with what came out, for the line that stays."""
        outcome: list[str] = []
        started = time.monotonic()
        with self.console.status(f"{escape(self._number())} {title} …"):
            yield outcome.append
        self._done(title, " ".join(outcome), started)

    @contextmanager
    def bar(self, title: str, total: int) -> Iterator[Callable[[int], None]]:
        """A step with a progress bar; call what it yields with how much more is done."""
        started = time.monotonic()
        columns = [
            SpinnerColumn(),
            TextColumn(f"{escape(self._number())} {title}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        ]
        with Progress(*columns, console=self.console, transient=True) as progress:
            task = progress.add_task(title, total=total)
            yield lambda more: progress.advance(task, more)
        seconds = time.monotonic() - started
        self._done(
            title, f"{total:,} in {seconds:.1f} s, {total / max(seconds, 1e-9):,.0f} a second", started
        )

    def _number(self) -> str:
        return f"[{len(self.timings) + 1}/{self._steps}]"

    def _done(self, title: str, outcome: str, started: float) -> None:
        seconds = time.monotonic() - started
        line = f"[green]✓[/] [dim]{escape(self._number())}[/] [bold]{title}[/]  {escape(outcome)}"
        self.console.print(line, highlight=False, soft_wrap=True)
        self.timings.append((title, seconds))

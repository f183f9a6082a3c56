"""The console that tables are printed on."""

from rich.console import Console


class Terminal(Console):
    """Lets a reader such as `head` that has had enough end the command quietly, and not as a failure."""

    def on_broken_pipe(self) -> None:
        """Leave it to the command line, which knows the exit code."""
        raise BrokenPipeError

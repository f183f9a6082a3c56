"""The console that tables and progress are printed on."""

from rich.console import Console

from attncli.commands.streams import discard


class Terminal(Console):
    """Goes on in silence where a reader such as `head` has had enough: files and the exit code are still wanted."""

    def on_broken_pipe(self) -> None:
        """Write the rest to nowhere."""
        discard(self.file)

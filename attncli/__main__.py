"""`python -m attncli` is the command `attncli`."""

from attncli.cli import app

app(prog_name="attncli")

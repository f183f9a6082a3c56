"""`attncli fit`: fit scorers to the attention of a real model."""

from attncli.commands.swap import command_on_model

COMMAND = command_on_model("fit")

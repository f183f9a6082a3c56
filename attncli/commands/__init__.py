"""The commands of the command line, a module with one function for each, and the helpers that they share."""

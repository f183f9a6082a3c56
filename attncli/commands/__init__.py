"""The commands of the command line: a file with one function for each."""

"""One command, one file, one plain function."""

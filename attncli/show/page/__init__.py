"""The HTML report: a page of runs, without other files."""

"""The HTML report: pages of runs that a browser shows by itself."""

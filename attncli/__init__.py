"""A command-line laboratory for attention scoring functions."""

__version__ = "0.2.0"

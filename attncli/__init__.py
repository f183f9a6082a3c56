"""A command-line laboratory for attention scoring functions."""

__version__ = "0.1.0"

"""Sweeps: many runs of one config as one, with a journal of its points and one table of all their records."""

"""Sweeps: runs of one config with many values of some keys, with a journal of them and one table of all their rows."""

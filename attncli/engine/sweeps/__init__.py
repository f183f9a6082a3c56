"""Sweeps: runs of a config with many values of some keys, a journal of the finished runs, and a table of all rows."""

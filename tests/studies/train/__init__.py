"""The study `train`."""

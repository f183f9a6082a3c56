"""The parts of the study `bench`."""

"""The parts of the study `train`."""

"""The parts of the studies `variance` and `saturation`, which sweep over d."""

"""The study `train`: models with each scorer learn associative recall, for several sizes d."""

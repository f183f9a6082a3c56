"""The change of a real model's outputs when it attends with other scorers."""

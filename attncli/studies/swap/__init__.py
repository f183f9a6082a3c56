"""A real model with other scorers inside: what its outputs do."""

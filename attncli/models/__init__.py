"""Attention calls of a real model: watched, re-scored, verified."""

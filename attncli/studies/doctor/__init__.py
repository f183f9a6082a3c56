"""The attention of heads: what is wrong, and what is remarkable."""

"""Results as rich tables and as matplotlib figures; they only read."""

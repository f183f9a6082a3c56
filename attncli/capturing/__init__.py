"""What entered the attention calls of a real model: seen, verified, kept in a file."""

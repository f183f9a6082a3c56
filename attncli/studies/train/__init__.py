"""Training of scorers: associative recall against d."""

"""What scorers learn: associative recall against d."""

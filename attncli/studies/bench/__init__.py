"""Time and memory of scorers against sizes."""

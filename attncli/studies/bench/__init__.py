"""The study `bench`: time and memory of scorers against sizes."""

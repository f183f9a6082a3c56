"""Code that studies share: the study protocol and its records, building of scorers, progress and threads."""

"""How an experiment is prepared, run, judged, kept, swept, loaded and compared."""

"""Run folders: the results of a study as files that appear complete or not at all."""

"""Run folders: what a study gave, as files that appear complete or not at all."""

"""Where queries, keys, values and masks come from: a config, files, a captured model, or a model that runs now."""

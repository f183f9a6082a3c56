"""From a config to tensors: queries, keys, values, valid lengths and masks."""

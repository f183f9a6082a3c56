"""Several scorers on the same queries, keys, values and mask: what differs."""

"""Names to classes to objects: scorers, normalisers, their entries in a config, plans, and how they are built."""

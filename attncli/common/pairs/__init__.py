"""Query-key pairs, random or real, in parts: what the studies against d share."""

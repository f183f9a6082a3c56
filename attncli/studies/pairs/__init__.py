"""Query-key pairs, random or real, in parts of bounded size, for the studies of scores against d."""

"""Code that several studies share: pairs of queries and keys, requests for models, intervals and trends."""

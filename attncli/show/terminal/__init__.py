"""Tables of results, comparisons, catalogues and explanations, printed by rich."""

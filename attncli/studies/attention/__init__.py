"""The study `attention`: the differences of several scorers on the same queries, keys, values and mask."""

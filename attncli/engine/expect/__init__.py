"""Check the expectations of an experiment: that their rows will exist, whether they hold, and tables of them."""

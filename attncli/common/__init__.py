"""What the studies share: what a study is and gives, how entries become scorers, progress, memory and threads."""

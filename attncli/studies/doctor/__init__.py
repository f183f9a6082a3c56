"""The study `doctor`: faults and remarkable patterns in the attention of every head."""

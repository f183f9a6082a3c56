"""The study `swap`: how a real model's outputs change if its attention uses other scorers."""

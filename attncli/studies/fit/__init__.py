"""The study `fit`: scorers fitted to the attention of a trained model, and put into it."""

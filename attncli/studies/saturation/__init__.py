"""The study `saturation`: how far the softmax saturates as d grows."""

"""How far the softmax saturates as d grows."""

"""Create the tensors that a config describes: queries, keys, values, valid lengths, masks and biases."""

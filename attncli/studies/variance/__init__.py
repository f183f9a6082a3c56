"""Mean and variance of scores against d, beside the theory."""

"""The study `variance`: mean and variance of scores against d, compared with theory."""

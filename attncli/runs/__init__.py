"""What studies give, and the folders they are kept in."""

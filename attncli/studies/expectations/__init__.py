"""What is expected of a result: which rows and figures that asks about, before the work and after it; and verdicts."""

"""What the numbers mean that a command ends with."""

EXPECTATION_FAILED, WRONG_INPUT, INTERRUPTED = 1, 2, 130

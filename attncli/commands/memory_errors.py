"""Whether an error says that the memory was not enough, asked where torch may not have been imported."""

import sys


def is_for_memory(error: Exception) -> bool:
    """Torch says it in an error of its own, or in words; without torch there is Python's only."""
    if "torch" not in sys.modules:
        return isinstance(error, MemoryError)
    from attncli.studies.memory import ran_out

    return ran_out(error)

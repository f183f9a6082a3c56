"""Loaded last by the server of which processes are copies, and by nothing else: it ends at once.

Taking torch down lasts up to a second, for which the pipes of a command that has ended would stay open.
"""

import atexit
import os

atexit.register(os._exit, 0)

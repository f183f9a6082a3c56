"""Let the process that imports this module end without cleaning up; only the server that forks the workers imports it.

Unloading torch takes up to a second, and keeps the output pipes of a finished command open for that time.
"""

import atexit
import os

atexit.register(os._exit, 0)

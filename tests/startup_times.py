"""Compare the start-up time of commands with their imports: `python tests/startup_times.py [RUNS]`.

Prints medians of the wall time of whole processes. They run in turn, so a busy machine slows both sides alike. Aims:
--help at most 2 times its imports; a run of the D2L example at most 1.3 times; `variance` at most 1.5 times its imports
and the drawing of its random numbers. No test checks them.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from attncli.common.pairs.entries import Entries
from attncli.studies.variance.study import default_samples

ROOT = Path(__file__).resolve().parents[1]
DRAWN = sum(2 * d * default_samples(Entries(), d) for d in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512))
DRAW = f"""
import torch, matplotlib.figure
numbers = torch.empty(2**18)
for _ in range({DRAWN} // 2**18):
    numbers.normal_()
"""
PAIRS = {
    "attncli --help": (["-m", "attncli", "--help"], "import typer, rich.console, rich.table", 2.0),
    "attncli run experiments/d2l.yaml": (
        ["-m", "attncli", "run", str(ROOT / "experiments" / "d2l.yaml")],
        "import torch, matplotlib.figure, matplotlib.backends.backend_agg",
        1.3,
    ),
    "attncli variance --d 512": (["-m", "attncli", "variance", "--d", "512"], DRAW, 1.5),
}


def seconds(arguments: list[str], folder: str) -> float:
    """Return the wall time of one process."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - start


def main(runs: int) -> None:
    """Print both medians, their ratio and the aim for each command."""
    with tempfile.TemporaryDirectory() as folder:
        for name, (command, imports, aim) in PAIRS.items():
            seconds(command, folder), seconds(["-c", imports], folder)  # fills the file cache
            times = [(seconds(command, folder), seconds(["-c", imports], folder)) for _ in range(runs)]
            ours, theirs = (statistics.median(side) for side in zip(*times, strict=True))
            print(f"{name}: {ours:.2f} s, without it {theirs:.2f} s, ratio {ours / theirs:.2f} (aim {aim})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)

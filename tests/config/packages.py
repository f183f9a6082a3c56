"""Packages for tests, with the metadata that pip writes when it installs one."""

import importlib
from pathlib import Path

MODULE = '''
import torch
from torch import nn


class Quarter(nn.Module):
    """q . k / d^power (a test's own)

    A dot product between scaled_dot and dot.
    """

    def __init__(self, query_size, key_size, *, power: float = 0.25):
        super().__init__()
        self.factor = key_size**-power
        self.gain = nn.Parameter(torch.ones(key_size))

    def forward(self, queries, keys):
        return self.factor * (queries * self.gain) @ keys.mT


class Halved(nn.Module):
    """share * softmax(s) (a test's own)"""

    def __init__(self, *, share: float = 0.5):
        super().__init__()
        self.share = share

    def forward(self, scores, valid):
        return self.share * scores.masked_fill(~valid, float("-inf")).softmax(-1)
'''


def install(
    site: Path, package: str = "quarter-power", scorers: str = "", normalizers: str = "", **modules: str
) -> Path:
    """Write an installed package into `site`, a folder on Python's path: its lists of classes, and texts of modules."""
    site.mkdir(exist_ok=True)
    about = site / f"{package.replace('-', '_')}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        f"[console_scripts]\nattncli-test = nowhere:main\n\n[attncli.scorers]\n{scorers}\n\n"
        f"[attncli.normalizers]\n{normalizers}\n"
    )
    for name, text in modules.items():
        (site / f"{name}.py").write_text(text)
    importlib.invalidate_caches()  # folders that changed within the clock's resolution count as unchanged
    return site

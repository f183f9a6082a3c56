"""`attncli check`: find mistakes in experiments without running them."""

from attncli.cli.options import Configs, Device, DType, Seed, Sets, set_overrides
from attncli.cli.progress import running
from attncli.cli.streams import print_line
from attncli.config.builtin import experiment_path
from attncli.config.document import read_document
from attncli.core.numbers import several
from attncli.errors import Collector, printable
from attncli.runtime import signals


def check(configs: Configs, sets: Sets = None, seed: Seed = None, device: Device = None, dtype: DType = None) -> None:
    """Find all mistakes in configs without running them; the exit code is 2 if there are any."""
    from attncli.cli.experiments import load  # loads torch

    overrides = set_overrides(sets, seed=seed, device=device, dtype=dtype)
    collector = Collector()
    for path in configs:
        with collector.under():
            experiment = load(read_document(experiment_path(path), overrides))
            with running(experiment.options.name) as progress:
                experiment.check(progress)
            signals.check()
            size = f", a sweep of {several(len(experiment.plan.points), 'point')}" if experiment.is_sweep else ""
            print_line(printable(f"{path}: good, study {experiment.options.study}{size}"))
    collector.check()

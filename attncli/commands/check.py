"""`attncli check`: everything that `run` would refuse, without running."""

from attncli.commands.options import Configs, Device, DType, Seed, Sets, overrides_of


def check(configs: Configs, sets: Sets = None, seed: Seed = None, device: Device = None, dtype: DType = None) -> None:
    """Check experiments without running them: YAML, tensors, files, scorers (made, not called), memory."""
    from attncli.commands.experiments import check as check_experiment
    from attncli.commands.experiments import load_experiment
    from attncli.commands.streams import say
    from attncli.errors import Collector

    overrides = overrides_of(sets, seed=seed, device=device, dtype=dtype)
    collector = Collector()
    for path in configs:
        with collector.under():
            experiment = load_experiment(path, overrides)
            check_experiment(experiment)
            say(f"{path}: good, study {experiment.options.study}")
    collector.check()

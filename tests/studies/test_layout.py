"""Every study has the same parts, by the same names and of the same types."""

import pytest

from attncli.config.models import Experiment
from attncli.studies import STUDIES, options_model, part_of
from attncli.studies.attention import study as attention
from attncli.studies.attention.options import AttentionOptions
from attncli.studies.bench import study as bench
from attncli.studies.bench.options import BenchOptions
from attncli.studies.pairs.study import Prepared as PreparedPairs
from attncli.studies.saturation import study as saturation
from attncli.studies.saturation.options import SaturationOptions
from attncli.studies.study import Column, Study
from attncli.studies.train import study as train
from attncli.studies.train.options import TrainOptions
from attncli.studies.variance import study as variance
from attncli.studies.variance.options import VarianceOptions

# What mypy compares: each module is a Study, with options and a preparation of its own types.
ATTENTION: Study[AttentionOptions, attention.Prepared] = attention
BENCH: Study[BenchOptions, bench.Prepared] = bench
SATURATION: Study[SaturationOptions, PreparedPairs] = saturation
TRAIN: Study[TrainOptions, train.Prepared] = train
VARIANCE: Study[VarianceOptions, PreparedPairs] = variance


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_has_its_parts(name: str) -> None:
    study, columns = part_of(name, "study"), part_of(name, "columns")
    assert issubclass(options_model(name), Experiment)
    assert all(isinstance(column, Column) for column in (*columns.COLUMNS, *getattr(columns, "COMPARISONS", ())))
    parts = [study.prepare, study.expected_rows, study.run, part_of(name, "tables").tables]
    assert all(map(callable, [*parts, part_of(name, "figure").figures]))

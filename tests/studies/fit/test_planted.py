"""Weights that come from a known scorer: fitting finds its parameters, or scores that do as well."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from attncli.scorers import SCORERS, Scorer
from attncli.studies.fit.fitting import KeysAlone, descend, measure, solve
from attncli.studies.fit.options import KEYS_ALONE, FitOptions, Per
from tests.margins import sampled
from tests.studies.fit.planted import HEADS, SIZE, fit_of, layer

STEPS = FitOptions.model_fields["steps"].default
LEFT = sampled(1e-4, 5e-5)  # by the default steps: it follows from the draws of the seed, not from rounding


def teachers(name: str, factor: float = 1.0, **options: Any) -> list[Scorer]:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(5)
        scorers = [SCORERS[name](SIZE, SIZE, **options) for _ in range(HEADS)]
    for scorer in scorers:
        for parameter in [*scorer.parameters()][-1:]:
            parameter.data.mul_(factor)
    return scorers


@pytest.mark.parametrize(("name", "option"), [("cosine", "scale"), ("gaussian", "sigma")])
def test_factors(name: str, option: str) -> None:
    wanted = [0.5, 1.0, 3.0, 20.0]
    fit = fit_of(name, layer(teachers=[SCORERS[name](SIZE, SIZE, **{option: value}) for value in wanted]))
    solve([fit], option)
    torch.testing.assert_close(fit.learnt.values[option], torch.tensor(wanted), rtol=1e-3, atol=0.0)
    assert float(measure(fit)["kl"].max()) < 1e-6


def test_keys_alone() -> None:
    """The reference finds the vector w where weights do not depend on the query."""
    wanted = torch.randn(HEADS, SIZE, generator=torch.Generator().manual_seed(2))
    scorers = [lambda queries, keys, w=w: (keys @ w)[:, None].expand(-1, queries.shape[-2], -1) for w in wanted]
    fit = fit_of({"scorer": KeysAlone, "label": KEYS_ALONE}, layer(teachers=scorers))
    descend([fit], STEPS, False, torch.Generator().manual_seed(0), lambda done: None)
    torch.testing.assert_close(fit.learnt.values["w"], wanted, rtol=0.0, atol=LEFT)


def test_matrices_of_general() -> None:
    scorers, done = teachers("general", 3.0), list[float]()
    fit = fit_of("general", layer(teachers=scorers))
    descend([fit], STEPS, False, torch.Generator().manual_seed(0), done.append)
    wanted = torch.stack([scorer.get_parameter("W.weight").detach() for scorer in scorers])
    assert float((fit.learnt.values["W.weight"] - wanted).norm() / wanted.norm()) < LEFT
    assert done == pytest.approx([(step + 1) / STEPS for step in range(STEPS)])


def test_additive_with_twice_the_units() -> None:
    """The default steps find scores that do as well, though not the units that were planted."""
    fit = fit_of("additive:num_hiddens=16", layer(teachers=teachers("additive", num_hiddens=8)))
    assert float(measure(fit)["kl"].quantile(0.5)) > 0.02
    descend([fit], STEPS, False, torch.Generator().manual_seed(0), lambda done: None)
    assert float(measure(fit)["kl"].quantile(0.5)) < LEFT
    assert not any(each.requires_grad for each in fit.learnt.raw.values())


def test_a_sink_is_learnt_from_outputs_or_beside_the_models_sinks() -> None:
    """Planted as the model's own sinks. A divergence from a plain softmax would send it to minus infinity."""
    entry = {"scorer": "scaled_dot", "scale": "model", "normalizer": "softmax_plus_one"}
    wanted, plain = torch.tensor([-1.0, 0.5, 1.0, 2.0]), layer()
    own = layer(sinks=wanted[None, :, None, None])
    learnt = [(plain, False, set()), (plain, True, {"sink"}), (own, False, {"sink"}), (own, True, {"sink"})]
    for calls, by_output, names in learnt:
        assert {*fit_of(entry, calls, by_output=by_output).learnt.raw} == names
    assert not fit_of({**entry, "normalizer": "softmax_plus_one:sink=0"}, own, by_output=True).learnt.raw
    fit = fit_of(entry, own, by_output=True)
    for bucket in fit.training:
        bucket.rules.__dict__["sinks"] = None  # of the entry, which has to learn them
    descend([fit], STEPS, True, torch.Generator().manual_seed(0), lambda done: None)
    torch.testing.assert_close(fit.learnt.values["sink"], wanted, rtol=0.0, atol=LEFT)


@pytest.mark.parametrize("per", ["head", "layer"])
@pytest.mark.parametrize(("name", "option"), [("scaled_dot", "scale"), ("cosine", "scale"), ("gaussian", "sigma")])
def test_other_factors_are_worse(name: str, option: str, per: Per) -> None:
    """For each head, or for all together where they share the factor. The weights are not those of any factor."""
    calls = layer()
    fit = fit_of(name, calls, per)
    solve([fit], option)
    best, sums = fit.learnt.raw[option], list[Tensor]()
    for factor in (0.99, 1.0, 1.01):
        fit.learnt.raw[option] = best + math.log(factor)  # the raw number is the logarithm
        fit.put()
        kl = measure(fit)["kl"]
        sums.append(kl if per == "head" else kl.sum())
    assert bool((sums[1] < torch.minimum(sums[0], sums[2])).all())


def test_the_first_query_of_a_causal_model_does_not_count() -> None:
    """It sees one key. The divergence of equal weights for m keys is log m less the entropy."""
    fit = fit_of({"scorer": "dot", "normalizer": "uniform", "label": "u"}, layer(is_causal=True))
    terms = list[list[float]]()
    for bucket in fit.held_out:
        for own, valid in zip(bucket.model_bucket.model_weights, bucket.valid[:, 0], strict=True):
            for row in range(1, int(valid.any(0).sum())):
                p = own[:, row, : row + 1].double()
                terms.append((math.log(row + 1) + (p * p.log()).sum(-1)).tolist())
    wanted = torch.tensor(terms, dtype=torch.float64).mean(0)
    torch.testing.assert_close(measure(fit)["kl"], wanted, rtol=1e-5, atol=0.0)


def test_factors_stay_finite() -> None:
    """Equal scores have no best factor; weights of 0 and 1 have none that is finite; other weights prefer none."""
    for name, option in (("cosine", "scale"), ("gaussian", "sigma")):
        fit = fit_of(name, layer(has_equal_keys=True))
        solve([fit], option)
        assert fit.learnt.values[option].tolist() == pytest.approx([1.0 if name == "cosine" else 0.5**0.5] * HEADS)
        for sign in (1e6, -1e6):
            fit = fit_of(name, layer(teachers=[SCORERS["cosine"](SIZE, SIZE, scale=sign) for _ in range(HEADS)]))
            solve([fit], option)
            assert bool(fit.learnt.values[option].isfinite().all())
            assert bool((fit.learnt.values[option] > 0).all())
            assert bool(measure(fit)["kl"].isfinite().all())


def test_a_sample_of_the_queries_of_a_long_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have the weights that they have among all, also where these depend on positions."""
    entry = {"scorer": "cosine", "window": 3, "first_keys": 1, "bias": "alibi"}
    whole = fit_of(entry, layer())
    monkeypatch.setattr("attncli.studies.fit.calls.LONGEST", 10)
    monkeypatch.setattr("attncli.studies.fit.calls.SAMPLED", 4)
    count = 0
    for all_, some in zip(whole.training, (sampled := fit_of(entry, layer())).training, strict=True):
        step = -(-all_.queries.shape[-2] // 4) if all_.queries.shape[-2] > 10 else 1
        count += some.queries.shape[-2] < all_.queries.shape[-2]
        assert torch.equal(some.counted, all_.counted[:, ::step])
        for new, old in ((sampled.weights(some), whole.weights(all_)), (some.target, all_.target)):
            torch.testing.assert_close(new, old[:, :, ::step])
        torch.testing.assert_close(some.output, all_.output[:, :, ::step])
    assert 0 < count < len(whole.training)

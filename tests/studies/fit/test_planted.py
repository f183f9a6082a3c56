"""Weights that come from a known scorer: fitting finds its parameters, or scores that do as well."""

from dataclasses import replace
from statistics import median
from typing import Any

import pytest
import torch

from attncli.scorers import SCORERS, Scorer
from attncli.studies.fit.fitting import LayerFit, descend, losses, measure, solve
from attncli.studies.fit.options import FitOptions
from tests.margins import sampled
from tests.reference import ORACLES
from tests.studies.fit.planted import HEADS, SIZE, fit_of, layer, planted

EVERY = torch.arange(48)
STEPS = FitOptions.model_fields["steps"].default
LEFT = sampled(1e-4, 5e-5)  # by the default steps: it follows from the draws of the seed, not from rounding


def teachers(name: str, factor: float = 1.0, **options: Any) -> list[Scorer]:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(5)
        made = [SCORERS[name](SIZE, SIZE, **options) for _ in range(HEADS)]
    for scorer in made:
        for parameter in [*scorer.parameters()][-1:]:
            parameter.data.mul_(factor)
    return made


def worst(fit: LayerFit) -> float:
    return max(kl for kl in measure(fit, EVERY)["kl"] if kl is not None)


def middle(fit: LayerFit) -> float:
    return median(kl for kl in measure(fit, EVERY)["kl"] if kl is not None)


@pytest.mark.parametrize(("name", "option"), [("cosine", "scale"), ("gaussian", "sigma")])
def test_factors(name: str, option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [0.5, 1.0, 3.0, 20.0]
    planted(monkeypatch, [SCORERS[name](SIZE, SIZE, **{option: value}) for value in wanted])
    fit = fit_of(name, layer())
    solve([fit], option, EVERY)
    torch.testing.assert_close(fit.learnt.values[option], torch.tensor(wanted), rtol=1e-3, atol=0.0)
    assert worst(fit) < 1e-6


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
    fit.calls.rules.__dict__["sinks"] = None  # of the entry, which has to learn them
    descend([fit], EVERY, STEPS, True, torch.Generator().manual_seed(0), lambda done: None)
    torch.testing.assert_close(fit.learnt.values["sink"], wanted, rtol=0.0, atol=LEFT)


def test_matrices_of_general(monkeypatch: pytest.MonkeyPatch) -> None:
    made, done = teachers("general", 3.0), list[float]()
    planted(monkeypatch, made)
    fit = fit_of("general", layer())
    descend([fit], EVERY, STEPS, False, torch.Generator().manual_seed(0), done.append)
    wanted = torch.stack([scorer.get_parameter("W.weight").detach() for scorer in made])
    left = float((fit.learnt.values["W.weight"] - wanted).norm() / wanted.norm())
    assert left < LEFT
    assert done == pytest.approx([(step + 1) / STEPS for step in range(STEPS)])


def test_additive_with_twice_the_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default steps find scores that do as well, though not the units that were planted."""
    planted(monkeypatch, teachers("additive", num_hiddens=8))
    fit = fit_of("additive:num_hiddens=16", layer())
    assert middle(fit) > 0.02
    descend([fit], EVERY, STEPS, False, torch.Generator().manual_seed(0), lambda done: None)
    assert middle(fit) < LEFT
    assert not any(each.requires_grad for each in fit.learnt.raw.values())


@pytest.mark.parametrize(("name", "option"), [("scaled_dot", "scale"), ("cosine", "scale"), ("gaussian", "sigma")])
def test_moments_agree_at_the_minimum(name: str, option: str) -> None:
    """A factor minimises the divergence where the mean of the unscaled scores is that under the model's weights."""
    train = layer()
    fit = fit_of(name, train)
    solve([fit], option, EVERY)
    part = fit.calls.part(EVERY)
    weights, target = fit.weights(part), fit.target(fit.model.part(EVERY))
    for head in range(HEADS):
        moments = [0.0, 0.0]
        for text in range(len(EVERY)):
            seen = int(train.keys[text])
            queries, keys = part.queries[text, head], part.keys[text, head, :seen]
            x = ORACLES[name](torch.nn.Identity(), queries, keys, **{option: 1.0})
            counted = part.counted[text, 0]
            moments[0] += float((weights[text, head, :, :seen].double() * x)[counted].sum())
            moments[1] += float((target[text, head, :, :seen].double() * x)[counted].sum())
        assert abs(moments[0] - moments[1]) / float(part.counted.sum()) < 1e-4


def test_a_bias_of_hidden_units_is_needed_for_dot_products() -> None:
    """Without it the score is odd, and learns nothing about an even one that helps other centred queries and keys."""
    uniform = middle(fit_of({"scorer": "dot", "normalizer": "uniform", "label": "u"}, layer(seed=1)))
    for bias in (False, True):
        fit, other = (
            fit_of({"scorer": "additive", "num_hiddens": 16, "bias": bias}, layer(seed=seed)) for seed in (0, 1)
        )
        descend([fit], EVERY, 150, False, torch.Generator().manual_seed(0), lambda done: None)
        other.learnt = fit.learnt
        other.put()
        assert middle(other) < 0.4 * uniform if bias else middle(other) > 0.95 * uniform


def test_sets_that_heads_share() -> None:
    """For a layer the factor solves the problem of all heads together."""
    fit = fit_of("cosine", layer(), per="layer")
    solve([fit], "scale", EVERY)
    best = float(fit.learnt.values["scale"])
    sums = []
    for scale in (0.99 * best, best, 1.01 * best):
        other = fit_of({"scorer": "cosine", "scale": scale}, layer())
        sums.append(sum(kl for kl in measure(other, EVERY)["kl"] if kl is not None))
    assert sums[1] < min(sums[0], sums[2])


def test_losses_are_the_figures_of_the_same_texts() -> None:
    """A step of descent sees the mean divergence, or the square of the relative error of the output."""
    fit = fit_of("cosine:scale=3", layer())
    figures, parts = measure(fit, EVERY), (fit.calls.part(EVERY), fit.model.part(EVERY))
    assert losses(fit, *parts, by_output=False).tolist() == pytest.approx(figures["kl"], rel=1e-4)
    assert losses(fit, *parts, by_output=True).sqrt().tolist() == pytest.approx(figures["output_l2"], rel=1e-4)


def test_factors_stay_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal scores have no best factor; weights of 0 and 1 have none that is finite; other weights prefer none."""
    equal = layer()
    same = replace(equal.inputs, keys=torch.ones_like(equal.inputs.keys))
    for name, option in (("cosine", "scale"), ("gaussian", "sigma")):
        fit = fit_of(name, replace(equal, inputs=same))
        solve([fit], option, EVERY)
        assert fit.learnt.values[option].tolist() == pytest.approx([1.0 if name == "cosine" else 0.5**0.5] * HEADS)
        for sign in (1e6, -1e6):
            planted(monkeypatch, [SCORERS["cosine"](SIZE, SIZE, scale=sign) for _ in range(HEADS)])
            fit = fit_of(name, layer())
            solve([fit], option, EVERY)
            assert bool(fit.learnt.values[option].isfinite().all())
            assert bool((fit.learnt.values[option] > 0).all())
            assert bool(torch.tensor(measure(fit, EVERY)["kl"]).isfinite().all())

"""Rotary positions against complex numbers, transformers' own code, and in every study."""

import json
import math
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from transformers.models.gpt_neox import modeling_gpt_neox
from transformers.models.llama import modeling_llama

import attncli
from attncli.config.builtin import builtin_path
from attncli.core.rotary import rotated
from tests import reference
from tests.cli import attncli as attncli_command
from tests.experiments import call_inputs
from tests.margins import sampled
from tests.reference import rounding
from tests.scorers.catalogue import normal
from tests.studies.pairs.samples import swept


@pytest.mark.parametrize(("pairs", "share", "theta"), [*product(["halves", "interleaved"], [1.0, 0.5], [1e4, 7.0])])
def test_against_complex_numbers(pairs: str, share: float, theta: float) -> None:
    vectors, positions, count = normal(2, 5, 8, dtype=torch.float64), torch.arange(5), round(8 * share)
    for first in (0, 3, 100_000):
        wanted = reference.rotated(vectors, first, theta, pairs, share)
        for dtype in (torch.float64, torch.float32):
            given = vectors.to(dtype)
            found = rotated(given, positions + first, theta, count, interleaved=pairs == "interleaved")
            bound = rounding(16, dtype) + rounding(8 * first, torch.float64)  # entries are below 4; angles in float64
            torch.testing.assert_close(found.double(), wanted, rtol=0, atol=bound)


@pytest.mark.parametrize("code", [modeling_llama, modeling_gpt_neox], ids=["whole", "partial"])
def test_against_transformers(code: Any) -> None:
    """Llama turns all features, GPT-NeoX a quarter of them; both pair halves."""
    d, count = 8, 8 if code is modeling_llama else 2
    queries, keys, positions = normal(1, 2, 6, d), normal(1, 2, 6, d, seed=1), torch.arange(6)
    angles = positions[:, None] * 1e4 ** (-torch.arange(0, count, 2) / count)
    cos, sin = (torch.cat([each, each], -1)[None] for each in (angles.cos(), angles.sin()))
    wanted = code.apply_rotary_pos_emb(queries, keys, cos, sin)
    for found, given in zip((queries, keys), wanted, strict=True):
        turned = rotated(found, positions, 1e4, count, interleaved=False)
        torch.testing.assert_close(turned, given, rtol=1e-5, atol=1e-5)


def test_the_lesson_of_equal_keys() -> None:
    """By the experiment `rope`: all keys are the query."""
    config = yaml.safe_load(builtin_path("rope").read_text())
    query = call_inputs(data=config["data"], mask=config["mask"]).queries[0]
    for finding, entry in zip(attncli.run(config).findings, config["scorers"], strict=False):
        how = entry["rope"]["theta"], entry["rope"]["pairs"]
        scores = reference.rotated(query, 63, *how) @ reference.rotated(query.expand(64, -1), 0, *how).mT / 32**0.5
        assert finding.label == entry["label"]
        expected = {"near": float(scores[0, 63]), "far": float(scores[0, 0]), "apart": 63}
        assert finding.numbers == pytest.approx(expected, rel=1e-4)
    ones = {"shape": [2, 3, 4], "fill": "ones"}
    data = {"queries": ones, "keys": ones, "valid_lens": [0, 3]}
    findings = attncli.run({"data": data, "scorers": ["dot:rope=true"]}).findings
    assert not any("positions" in finding.text for finding in findings), "the first query has no keys"


def test_explained() -> None:
    """The last of two queries stands at the position of the last of three keys."""
    rows = [[1.0, 2.0, 3.0, 4.0]] * 3
    config = {"data": {"queries": rows[1:], "keys": rows}, "mask": {"align": "bottom_right"}}
    found = attncli.run({**config, "scorers": ["dot:rope=true,qk_norm=rms,label=it"]}).explain(query=1)
    turned = reference.rotated(reference.normed("rms", torch.tensor(rows)), 0)
    assert found.of_query["position of q"] == 2
    assert found.of_query["rope(rms_norm(q))"] == pytest.approx(turned[2].tolist(), rel=1e-5)
    for position, key in enumerate(found.keys):
        assert key["steps"]["position of k"] == position
        assert key["steps"]["rope(rms_norm(k))"] == pytest.approx(turned[position].tolist(), rel=1e-5)
        assert key["score"] == pytest.approx(float(turned[2] @ turned[position]), rel=1e-5)


def test_the_variance_of_random_pairs_stays() -> None:
    """The theory without rope is that with it, where turning changes no distribution; else there is none."""
    entries = [{"scorer": "scaled_dot", "label": label, "rope": rope} for label, rope in (("no", None), ("yes", True))]
    for row in swept("variance", d=[64], scorers=entries, samples=100_000).records:
        assert (row["theory_mean"], row["theory_variance"]) == (0.0, 1.0)
        assert row["variance"] == pytest.approx(1.0, abs=sampled(5 * math.sqrt(2 / 1e5), math.sqrt(2 / 1e5)))
    moved = swept("variance", d=[64], scorers=entries[1:], samples=1000, mean=1.0).records
    assert [row["theory"] for row in moved] == [None]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("study", ["attention", "doctor", "variance"])
def test_a_captured_model_turns_once_more(study: str) -> None:
    queries, keys, values = (normal(1, 2, 8, 4, seed=seed) for seed in range(3))
    with attncli.Capture() as seen:
        torch.nn.functional.scaled_dot_product_attention(queries, keys, values)
    attncli.save(seen, "seen.safetensors")
    config = {"study": study, "data": {"capture": "seen.safetensors"}, "scorers": ["dot:rope=true", "dot"]}
    Path("x.yaml").write_text(json.dumps(config))
    note = " ".join(attncli_command("run", "x.yaml", "--no-plots", "--out", "out").stderr.split())
    assert "dot_rope: rope turns queries and keys as the model's attention saw them, once more" in note

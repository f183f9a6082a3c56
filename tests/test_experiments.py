"""Every built-in experiment runs, is explained, and shows what its comment says."""

import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from typer.testing import CliRunner

from attncli.cli import app
from attncli.config.builtin import builtin_names, builtin_path

D2L_OUTPUTS = torch.tensor([[[2.0, 3.0, 4.0, 5.0]], [[10.0, 11.0, 12.0, 13.0]]])
NAMES = [
    "d2l",
    "d2l_additive",
    "d2l_dot_product",
    "different_lengths",
    "learning",
    "longer_sequences",
    "masked_softmax_1d",
    "masked_softmax_2d",
    "modified_keys",
    "multi_head",
    "nadaraya_watson",
    "own_tensors",
    "saturation",
    "speed",
    "variance",
    "variance_correlated",
    "variance_nonzero_mean",
    "vector_sum",
]
PAIRS = ["saturation", "variance", "variance_correlated", "variance_nonzero_mean"]
SMALLER = {  # than they are, since time is what they take
    "saturation": ["--set", "d=[8, 128, 512]", "--set", "rows=1000"],
    "variance": ["--set", "samples=80000"],
    "variance_correlated": ["--set", "samples=80000"],
    "variance_nonzero_mean": ["--set", "samples=80000"],
    "learning": ["--set", "d=[4, 256]", "--set", "steps=60"],
    "longer_sequences": ["--set", "seeds=1", "--set", "steps=20", "--set", "expect=[]"],
    "speed": ["--set", "n=[4, 8]", "--set", "d=4"],
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one run of each experiment, all in one command."""
    folder = tmp_path_factory.mktemp("experiments")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        result = CliRunner().invoke(app, ["run", *(str(builtin_path(name)) for name in NAMES if name not in SMALLER)])
        assert result.exit_code == 0, result.output
        assert "warning" not in result.stderr
        for name, smaller in SMALLER.items():
            result = CliRunner().invoke(app, ["run", str(builtin_path(name)), *smaller])
            assert result.exit_code == 0, result.output
    return folder / "outputs"


def tensors(runs: Path, name: str) -> dict[str, Tensor]:
    return load_file(runs / name / "latest" / "tensors.safetensors")


def records(runs: Path, name: str) -> list[dict[str, float]]:
    content: list[dict[str, float]] = json.loads((runs / name / "latest" / "results.json").read_text())["records"]
    return content


def test_the_list_is_complete() -> None:
    assert [name for name in builtin_names() if not name.startswith("claims/")] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_explained_and_sourced(name: str) -> None:
    lines = builtin_path(name).read_text(encoding="utf-8").splitlines()
    comment = [line for line in lines if line.startswith("#")]
    assert len(comment) >= 3
    assert len(comment[0]) <= 80
    assert comment[1] == "#"


@pytest.mark.parametrize("name", [name for name in NAMES if name not in (*PAIRS, *SMALLER)])
def test_run_folder_has_pictures_and_finite_records(runs: Path, name: str) -> None:
    folder = runs / name / "latest"
    rows = records(runs, name)
    assert {f"heatmap_{row['label']}.png" for row in rows} | {"heatmaps.png"} == {p.name for p in folder.glob("*.png")}
    assert all(math.isfinite(row["entropy"]) and row["empty_rows"] == 0 for row in rows)


@pytest.mark.parametrize("name", ["d2l", "d2l_additive", "d2l_dot_product"])
def test_published_outputs_of_d2l(runs: Path, name: str) -> None:
    outputs = [tensor for key, tensor in tensors(runs, name).items() if key.endswith("/output")]
    assert len(outputs) == len(records(runs, name))
    for output in outputs:
        torch.testing.assert_close(output, D2L_OUTPUTS)


def test_d2l_shapes_are_the_chapters(runs: Path) -> None:
    assert tensors(runs, "d2l_additive")["queries"].shape == (2, 1, 20)
    assert tensors(runs, "d2l_dot_product")["queries"].shape == (2, 1, 2)


@pytest.mark.parametrize(
    ("name", "lengths"), [("masked_softmax_1d", [[2, 2], [3, 3]]), ("masked_softmax_2d", [[1, 3], [2, 4]])]
)
def test_masked_softmax(runs: Path, name: str, lengths: list[list[int]]) -> None:
    stored = tensors(runs, name)
    for b in range(2):
        for query in range(2):
            valid = lengths[b][query]
            expected = stored["queries"][b, query, :valid].softmax(-1)
            torch.testing.assert_close(stored["dot/weights"][b, query, :valid], expected)
            assert not stored["dot/weights"][b, query, valid:].any()


def test_modified_keys_make_scorers_differ(runs: Path) -> None:
    content = json.loads((runs / "modified_keys" / "latest" / "results.json").read_text())
    assert all(row["js_divergence"] > 0.01 for row in content["comparisons"])
    same = json.loads((runs / "d2l" / "latest" / "results.json").read_text())
    assert all(row["js_divergence"] < 1e-6 for row in same["comparisons"])


def test_vector_sum_gives_every_query_the_same_weights(runs: Path) -> None:
    stored = tensors(runs, "vector_sum")
    alike = stored["vector_sum/weights"]
    torch.testing.assert_close(alike, alike[:, :1].expand_as(alike), atol=1e-6, rtol=1e-5)
    other = stored["scaled_dot/weights"]
    assert (other - other[:, :1]).abs().max() > 0.05


def test_nadaraya_watson_is_kernel_regression(runs: Path) -> None:
    stored = tensors(runs, "nadaraya_watson")
    x, y = stored["keys"][0, :, 0].tolist(), stored["values"][0, :, 0].tolist()
    for sigma in (0.1, 0.5, 2.0):
        for query, estimate in zip(
            stored["queries"][0, :, 0].tolist(), stored[f"sigma_{sigma:g}/output"][0, :, 0].tolist(), strict=True
        ):
            kernel = [math.exp(-((query - point) ** 2) / (2 * sigma**2)) for point in x]
            expected = math.fsum(k * value for k, value in zip(kernel, y, strict=True)) / math.fsum(kernel)
            assert estimate == pytest.approx(expected, rel=1e-4)


def test_wider_kernels_flatten_the_curve(runs: Path) -> None:
    stored = tensors(runs, "nadaraya_watson")
    spread = [float(stored[f"sigma_{sigma}/output"].std()) for sigma in ("0.1", "0.5", "2")]
    assert spread == sorted(spread, reverse=True)


def test_multi_head_is_causal(runs: Path) -> None:
    stored = tensors(runs, "multi_head")
    assert stored["scaled_dot/weights"].shape == (1, 4, 6, 6)
    assert not stored["scaled_dot/weights"].triu(1).any()


def test_own_tensors_are_those_of_the_file(runs: Path) -> None:
    import numpy

    stored = tensors(runs, "own_tensors")
    with numpy.load(builtin_path("own_tensors").with_suffix(".npz")) as file:
        for role in ("queries", "keys", "values"):
            torch.testing.assert_close(stored[role], torch.from_numpy(file[role]), rtol=0, atol=0)
        lengths = torch.from_numpy(file["lengths"])
    torch.testing.assert_close(stored["valid"].sum(-1), lengths)


def where(runs: Path, name: str, label: str) -> dict[int, dict[str, float]]:
    """The records of one label by d."""
    return {int(row["d"]): row for row in records(runs, name) if str(row["label"]) == label}


@pytest.mark.parametrize("name", PAIRS)
def test_studies_of_pairs_have_one_picture(runs: Path, name: str) -> None:
    folder = runs / name / "latest"
    assert [path.name for path in folder.glob("*.png")] == [f"{name.partition('_')[0]}.png"]


def test_the_square_root_keeps_the_variance_at_1(runs: Path) -> None:
    for d, row in where(runs, "variance", "scaled_dot").items():
        assert row["variance"] == pytest.approx(1.0, rel=0.03)
        assert where(runs, "variance", "dot")[d]["variance"] == pytest.approx(d, rel=0.03)
        assert where(runs, "variance", "scaled_dot_1_over_d")[d]["variance"] == pytest.approx(1 / d, rel=0.03)
        assert where(runs, "variance", "cosine")[d]["variance"] == pytest.approx(1 / d, rel=0.03)
    assert len(where(runs, "variance", "scaled_dot")) == 11


def test_means_add_to_the_variance(runs: Path) -> None:
    """(1 + 0.25)^2 - 0.0625 = 1.5 for each product."""
    for d, row in where(runs, "variance_nonzero_mean", "scaled_dot").items():
        assert row["variance"] == pytest.approx(1.5, rel=0.03)
        assert row["mean"] == pytest.approx(0.25 * math.sqrt(d), abs=0.03)


def test_correlation_makes_the_mean_grow_over_the_square_root_only(runs: Path) -> None:
    for d, row in where(runs, "variance_correlated", "scaled_dot").items():
        assert row["variance"] == pytest.approx(1.25, rel=0.03)
        assert row["mean"] == pytest.approx(0.5 * math.sqrt(d), abs=0.03)
        assert where(runs, "variance_correlated", "scaled_dot_1_over_d")[d]["mean"] == pytest.approx(0.5, abs=0.03)


def test_unscaled_dot_products_saturate(runs: Path) -> None:
    """Bands of figures that others have measured for 64 keys."""
    dot, scaled = where(runs, "saturation", "dot"), where(runs, "saturation", "scaled_dot")
    for d, norm, weight in ((8, 0.303, 0.43), (128, 0.096, 0.84), (512, 0.0043, 0.93)):
        assert dot[d]["jacobian_median"] == pytest.approx(norm, rel=0.35)
        assert dot[d]["max_weight"] == pytest.approx(weight, abs=0.03)
        assert scaled[d]["jacobian_median"] == pytest.approx(0.178, abs=0.01)
        assert scaled[d]["max_weight"] == pytest.approx(0.105, abs=0.01)
    assert dot[8]["entropy"] == pytest.approx(0.50, abs=0.03)
    assert dot[512]["entropy"] == pytest.approx(0.043, abs=0.01)


def test_speed_compares_with_the_textbook(runs: Path) -> None:
    folder = runs / "speed" / "latest"
    assert [path.name for path in folder.glob("*.png")] == ["bench.png"]
    rows = json.loads((folder / "results.json").read_text())["records"]
    found = {(row["label"], row["implementation"]) for row in rows if row["status"] == "timed"}
    additive = {("additive", "attncli"), ("additive", "textbook")}
    dots = {("scaled_dot", "attncli"), ("scaled_dot", "textbook"), ("scaled_dot", "fused")}
    assert found == additive | dots | {("general", "attncli"), ("cosine", "attncli")}
    own = [row for row in rows if (row["label"], row["implementation"]) == ("scaled_dot", "textbook")]
    assert [row["ratio"] for row in own] == [1.0] * 4


def test_learning_is_better_with_the_scale(runs: Path) -> None:
    folder = runs / "learning" / "latest"
    assert [path.name for path in folder.glob("*.png")] == ["train.png"]
    summary = json.loads((folder / "results.json").read_text())["comparisons"]
    found = {(row["label"], row["d"]): row for row in summary}
    assert set(found) == {(label, d) for label in ("dot", "scaled_dot", "additive") for d in (4, 256)}
    assert found["scaled_dot", 256]["accuracy_min"] > 0.98 > 0.9 > found["dot", 256]["accuracy_max"]

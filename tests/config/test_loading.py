"""The default name, paths of files, and the configs that cannot be read."""

import os
from pathlib import Path

import pytest

from attncli.config.document import default_name, read_document
from attncli.config.tensors import FileTensor
from attncli.errors import InputError
from tests.config.documents import GOOD, options_of


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("d2l.yaml", "d2l"),
        ("my run.v2.yml", "my run.v2"),
        ("実験.yaml", "実験"),
        ("no_ending", "no_ending"),
        (".hidden.yaml", "hidden"),
        ("a:b*c?.yaml", "a_b_c_"),
        ("a\tb.yaml", "a_b"),
        ("....yaml", "experiment"),
        ("  .yaml", "experiment"),
        ("実" * 80 + ".yaml", "実" * 66),
    ],
)
def test_the_default_name_is_good_for_a_folder(file: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / file
    path.write_text(GOOD)
    assert default_name(path) == name
    assert options_of(tmp_path, GOOD + f'name: "{name}"\n').name == name


def test_the_file_is_the_default_and_the_key_wins(tmp_path: Path) -> None:
    assert options_of(tmp_path).name == "x"
    assert options_of(tmp_path, GOOD + "name: other\n").name == "other"
    assert options_of(tmp_path, GOOD, "name=third").name == "third"


def test_file_names_are_relative_to_the_yaml(tmp_path: Path) -> None:
    text = (
        "data: {queries: {file: a/q.npy}, keys: {file: /k.npy}}\nscorers: [{scorer: dot, parameters: {file: p.pt}}]\n"
    )
    options = options_of(tmp_path, text)
    assert isinstance(options.data.queries, FileTensor)
    assert isinstance(options.data.keys, FileTensor)
    assert Path(options.data.queries.file) == tmp_path / "a" / "q.npy"
    assert Path(options.data.keys.file) == Path("/k.npy")
    assert options.scorers[0].parameters is not None
    assert Path(options.scorers[0].parameters.file) == tmp_path / "p.pt"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.touch(mode=0)
    with pytest.raises(InputError) as caught:
        read_document(path)
    assert str(caught.value) == f"{path}: cannot be read: Permission denied; expected a YAML file"


@pytest.mark.parametrize("name", ["a\0b.yaml", "x" * 300 + ".yaml"])
def test_names_that_no_file_can_have(name: str) -> None:
    with pytest.raises(InputError, match=r"cannot be read: .*; expected a YAML file$"):
        read_document(Path(name))


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_bytes(b"\xef\xbb\xbfseed: 3\n")
    assert read_document(tmp_path / "x.yaml").data == {"seed": 3}

"""What a file is, told by its first bytes and not by its name."""

import codecs
from dataclasses import dataclass
from pathlib import Path

from attncli.inputs.formats.problems import problem

CONVERT = "convert it to .npy or .safetensors"


@dataclass(frozen=True)
class Look:
    """A kind of file: its words, the endings that it should have, and the cure where it has another one."""

    words: str
    endings: tuple[str, ...] = ()
    cure: str = CONVERT


NPZ = Look("a NumPy archive (.npz)", (".npz",), "rename it to end in .npz")
PYTORCH = Look("a PyTorch file", (".pt", ".pth"), "rename it to end in .pt")
SAFETENSORS = Look("a safetensors file", (".safetensors",), "rename it to end in .safetensors")
ZIP = Look("a zip archive", (".npz", ".pt", ".pth"), "unpack it")
WEB_PAGE = Look("a web page (HTML)", (), "download the file itself")
TEXT = Look("text", (".csv",), "if it is a table of numbers, rename it to end in .csv")
UTF16 = Look("UTF-16 text", (), "save it as UTF-8")
OLD_PYTORCH = Look("a PyTorch file from before version 1.6", (), "load it and save it again with today's torch.save")
PICKLE = Look("a Python pickle, which is never loaded since it may run code", (), "save it as .npy or .safetensors")

MAGIC = {
    b"version https://git-lfs": Look("a Git LFS pointer and not the data", (), "fetch the data: git lfs pull"),
    b"\x93NUMPY": Look("a NumPy array (.npy)", (".npy",), "rename it to end in .npy"),
    b"\x89HDF\r\n\x1a\n": Look("an HDF5 file"),
    b"MATLAB 5.0": Look("a MATLAB file"),
    b"PAR1": Look("a Parquet file"),
    b"\x1f\x8b": Look("a gzip file", (), "unpack it: gunzip"),
    b"\xff\xfe": UTF16,
    b"\xfe\xff": UTF16,
    b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.": OLD_PYTORCH,
    b"\x80\x02": PICKLE,
    b"\x80\x03": PICKLE,
    b"\x80\x04": PICKLE,
    b"\x80\x05": PICKLE,
}


def look_at(head: bytes) -> Look | None:
    """What these first bytes belong to; None where nobody can tell."""
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 1 << 32:
        return SAFETENSORS  # first of all: the length that it begins with may look like anything
    for magic, look in MAGIC.items():
        if head.startswith(magic):
            return look
    if head.startswith(b"PK\x03\x04"):
        return look_at_zip(head)
    if head.lstrip()[:5].lower() in (b"<!doc", b"<html"):
        return WEB_PAGE
    return TEXT if is_text(head) else None


def look_at_zip(head: bytes) -> Look:
    """Both NumPy and PyTorch pack zip archives; the name of the first member tells them apart."""
    name = head[30 : 30 + int.from_bytes(head[26:28], "little")]
    if name.endswith(b".npy"):
        return NPZ
    return PYTORCH if name.endswith(b".pkl") else ZIP


def is_text(head: bytes) -> bool:
    """UTF-8 (which may be cut in the middle of a character) without control characters."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return all(letter.isprintable() or letter in "\t\r\n\f\ufeff" for letter in text)


def refuse_other_kind(path: Path, head: bytes) -> None:
    """InputError where a file's first bytes do not go with its ending."""
    look = look_at(head)
    ending = path.suffix.lower()
    if look is None or ending in look.endings:
        return
    raise problem(path, f"not a {ending} file: it looks like {look.words}", look.cure)

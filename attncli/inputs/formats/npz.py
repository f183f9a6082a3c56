"""NumPy's .npz: a zip archive of .npy members."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from attncli.inputs.formats.contents import Contents, Entry
from attncli.inputs.formats.npy import entry, read_header
from attncli.inputs.formats.problems import parsing, problem


def contents(path: Path) -> Contents:
    """The arrays of an .npz by name; other members are passed over."""
    with parsing(path), ZipFile(path) as archive:
        members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
        if len({member.filename for member in members}) < len(members):
            raise problem(path, "holds several arrays of one name", "save it again")
        return Contents(path, {member.filename[:-4]: member_entry(path, archive, member) for member in members})


def member_entry(path: Path, archive: ZipFile, member: ZipInfo) -> Entry:
    """One member, known by its header; nothing is unpacked but that."""
    if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):  # others may ask for gigabytes before the first byte
        raise problem(path, "packed in a way that NumPy does not use", "save it with numpy.savez_compressed")

    @contextmanager
    def opened() -> Iterator[IO[bytes]]:
        with ZipFile(path) as again, again.open(member) as stream:
            yield stream

    with archive.open(member) as stream:
        header = read_header(path, stream)
    return entry(path, member.filename[:-4], header, member.file_size, opened)

"""Numbers of bytes for people, in messages of every part."""


def in_bytes(size: float) -> str:
    """A number of bytes as people read it: `8.0 TiB`."""
    if size < 1024:
        return "1 byte" if size == 1 else f"{size:.0f} bytes"
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        size /= 1024
        if size < 1024:
            return f"{size:.1f} {unit}"
    return f"{size:.2g} PiB"

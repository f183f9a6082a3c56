"""Do the shapes of queries, keys and values belong together?"""

from collections.abc import Mapping

from attncli.errors import InputError, Problem

Shapes = Mapping[str, tuple[int, ...]]


def batched(shape: tuple[int, ...]) -> tuple[int, ...]:
    """An unbatched (n, q) counts as a batch of one."""
    return (1, *shape) if len(shape) == 2 else shape


def common_leading(shapes: Shapes) -> tuple[int, ...]:
    """The leading axes (b, ...) after axes of size 1 are repeated, for shapes of `queries`, `keys` and `values` if any.

    Raises:
        InputError: all shapes that do not fit, by name.
    """
    full = {role: batched(shape) for role, shape in shapes.items()}
    rank = max(len(shape) for shape in full.values())
    # An unbatched tensor, or a batch of one, is repeated over any number of leading axes.
    full = {role: (1,) * (rank - 3) + shape if shape[:-2] == (1,) else shape for role, shape in full.items()}
    leading = tuple(max(sizes) for sizes in zip(*(shape[:-2] for shape in full.values()), strict=False))
    problems = []
    for role, shape in full.items():
        if len(shape) != rank or any(size not in (1, most) for size, most in zip(shape, leading, strict=False)):
            message = f"got shape {list(shapes[role])} beside {_others(role, shapes)}"
            problems.append(
                Problem(f"{message}; expected equal leading axes, or of size 1, which are repeated", (role,))
            )
    if full["keys"][-2] != full.get("values", full["keys"])[-2]:
        count = full["values"][-2]
        message = f"got {count} value{'s' * (count != 1)}; expected {full['keys'][-2]}, one for each key"
        problems.append(Problem(message, ("values",)))
    if problems:
        raise InputError(problems)
    return leading


def _others(role: str, shapes: Shapes) -> str:
    return ", ".join(f"{other} {list(shape)}" for other, shape in shapes.items() if other != role)

"""Labels for figures and tables of several scorers."""


def many_scorers(count: int) -> dict[str, str]:
    """Labels of scorers with scale 1, one of them long and one in Chinese."""
    names = ["dot", "注意力机制 点积", "a rather long label that says everything that there is to say about the scorer"]
    names += ["_hidden $x_1$", "[bold]"]
    return {names[index] if index < len(names) else f"dot_{index}": "dot" for index in range(count)}

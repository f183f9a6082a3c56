import pytest

from attncli.show.weights import shade


def brightness(weight: float) -> int:
    background = shade(weight).bgcolor
    assert background is not None
    assert background.triplet is not None
    return sum(background.triplet)


def test_more_weight_is_darker() -> None:
    shades = [brightness(step / 20) for step in range(21)]
    assert shades == sorted(set(shades), reverse=True)


@pytest.mark.parametrize(("weight", "foreground"), [(0.0, (0, 0, 0)), (0.5, (0, 0, 0)), (1.0, (255, 255, 255))])
def test_text_stands_out(weight: float, foreground: tuple[int, int, int]) -> None:
    colour = shade(weight).color
    assert colour is not None
    assert colour.triplet == foreground

"""The key `settings` of results.json: the facts of a result that are neither rows nor findings."""

from typing import Any

from pydantic import BaseModel, field_validator

from attncli.results import CaptureFacts, Result, Row, Stage, SweepResult, tensor_name


def settings_of(result: Result) -> Row:
    """Return the facts of a result as data for JSON."""
    settings = {**result.facts.data, "random": result.random}
    if result.formulas:
        settings["formulas"] = result.formulas
    if result.capture is not None:
        settings["capture"] = result.capture.data
    if result.save is not None:
        settings["save"] = result.save
    if result.layers:
        settings["layers"] = {name: _of_layer(result, name) or number for name, number in result.layers.items()}
    else:
        settings |= _of_layer(result, None)
    if isinstance(result, SweepResult):
        chosen = {"metric": result.chosen} if result.chosen else {}
        settings |= {"sweep": {"over": result.axes, **chosen}, "points": result.points, "metric": result.metric or None}
    return settings


def _of_layer(result: Result, layer: str | None) -> Row:
    """Return the scales and tokens in a layer; empty for studies without them."""
    names = {label: tensor_name(label, layer=layer) for label in result.labels}
    scales = {label: result.scales[name] for label, name in names.items() if name in result.scales}
    return {"scales": scales, "tokens": vars(result.tokens_in(layer))} if scales else {}


class _Layer(BaseModel):
    scales: dict[str, float | None] = {}
    tokens: dict[str, list[list[str]] | None] = {}


class _Sweep(BaseModel):
    over: list[dict[str, list[Any]]]
    metric: str | None = None


class Settings(_Layer, extra="allow"):
    """The key `settings`, with the types of its values. Facts that only one study has are among the others."""

    formulas: dict[str, str] = {}
    random: list[str] = []
    capture: CaptureFacts | None = None
    save: list[Stage] | None = None
    layers: dict[str, int | _Layer] = {}
    sweep: _Sweep | None = None
    points: dict[str, int] = {}
    metric: str | None = None

    @field_validator("capture", mode="before")
    @classmethod
    def _named(cls, capture: object) -> Any:
        """Return facts for the name of a file alone, as version 0.3.0 wrote it for `variance` and `saturation`."""
        return {"file": capture} if isinstance(capture, str) else capture

    @property
    def fields(self) -> dict[str, Any]:
        """Return the fields of a `Result` or `SweepResult`."""
        calls = {} if self.capture is None else self.capture.calls
        layers: dict[str | None, _Layer] = {None: self}
        layers |= {name: layer for name, layer in self.layers.items() if isinstance(layer, _Layer)}
        numbers = {name: layer if isinstance(layer, int) else calls[name].number for name, layer in self.layers.items()}
        fields: dict[str, Any] = {"formulas": self.formulas, "random": self.random}
        fields |= {"capture": self.capture, "save": self.save, "layers": numbers, "scales": {}, "tokens": {}}
        for layer, of in layers.items():
            fields["scales"] |= {tensor_name(label, layer=layer): scale for label, scale in of.scales.items()}
            fields["tokens"] |= {tensor_name(side, layer=layer): names for side, names in of.tokens.items() if names}
        if self.sweep is not None:
            fields |= {"axes": self.sweep.over, "chosen": self.sweep.metric}
            fields |= {"metric": self.metric or "", "points": self.points}
        return fields

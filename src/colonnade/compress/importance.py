"""Which encodings go by the importance of columns, which is known of embeddings only.

How much a column of an embedding matters shows in the gradient of the round before. Of gradients
and of a top model's weights nothing of the kind is known.
"""

from __future__ import annotations

from colonnade.compress.base import Encoding, plain
from colonnade.compress.feedback import ErrorFeedback, error_feedback
from colonnade.compress.schedule import Steps, steps
from colonnade.compress.topk import TopK


def goes_by_importance(encoding: Encoding) -> bool:
    """Whether an encoding needs to know which columns matter, in some rounds at least.

    >>> from colonnade.compress.text import parse
    >>> goes_by_importance(parse("ef+topk:4:importance")), goes_by_importance(parse("topk:4"))
    (True, False)
    """
    return encoding != without_importance(encoding)


def without_importance(encoding: Encoding) -> Encoding:
    """The encoding for tensors whose columns have no known importance: they are sent plain.

    >>> from colonnade.compress.text import parse
    >>> without_importance(parse("steps:0=topk:4:importance,9=half")) == parse(
    ...     "steps:0=plain,9=half")
    True
    """
    match encoding:
        case TopK(by="importance"):
            return plain()
        case ErrorFeedback(inner):
            return error_feedback(without_importance(inner))
        case Steps(parts):
            return steps([(start, without_importance(part)) for start, part in parts])
    return encoding

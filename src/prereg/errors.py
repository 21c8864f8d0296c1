"""Every error prereg raises on purpose.

An error says what was found, what was wanted, and the next command to run. Each class is one *kind* of
trouble, so that a caller can tell bad input from a broken machine without reading the words.
"""

from __future__ import annotations

import re

__all__ = [
    "ActivationsError",
    "AnalysisError",
    "EvidenceError",
    "FactsError",
    "InferenceError",
    "ModelError",
    "ModelUnavailable",
    "ParityError",
    "PreregError",
    "ProtocolError",
    "RegistrationError",
    "StorageError",
    "StoreCorrupt",
    "StudyError",
]

# Controls, and marks that reorder or break lines: a file's text must not get to steer a terminal.
_STEERING = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def _printable(text: str) -> str:
    """Return a text with every character that could steer a terminal written out; tabs and newlines stay."""
    return _STEERING.sub(lambda found: found.group().encode("unicode_escape").decode("ascii"), text)


class PreregError(Exception):
    """The root of the family.

    Parameters
    ----------
    message
        What was found and what was wanted, in one or two sentences.
    remedy
        The next step: a command to run or an edit to make. Shown on a line of its own.
    """

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        # Messages quote files that anyone may have written.
        self.message = _printable(message)
        self.remedy = None if remedy is None else _printable(remedy)
        super().__init__(self.message)

    def __str__(self) -> str:
        if self.remedy is None:
            return self.message
        return f"{self.message}\n  next: {self.remedy}"


class ProtocolError(PreregError):
    """A protocol.toml that can't be read as a promise: names file, line and key."""


class RegistrationError(PreregError):
    """A registration that can't be made, read, or shown to be what was promised."""


class FactsError(PreregError):
    """A facts file that breaks its own rules: duplicate row, empty relation, leaked answer."""


class ModelError(PreregError):
    """A model that can't be used: unknown alias, wrong digest, unreadable weights."""


class ModelUnavailable(ModelError):
    """A model that would be fine but isn't here and can't be fetched now."""


class ActivationsError(PreregError):
    """A capture that can't be carried out as asked."""


class ParityError(ActivationsError):
    """The fast capture and the reference disagree: nothing may be captured from this model."""


class StorageError(PreregError):
    """The disk said no: full, read-only, or locked by another process."""


class StoreCorrupt(StorageError):
    """Bytes on disk are not the bytes that were written."""


class AnalysisError(PreregError):
    """A measurement that these activations or settings can't give: says which, and what would."""


class EvidenceError(PreregError):
    """An evidence table that is missing, malformed or not the one that was asked for."""


class InferenceError(PreregError, ValueError):
    """Numbers from which no interval may be computed: empty, NaN, mismatched, too few."""


class StudyError(PreregError):
    """A study folder that can't be opened, or a hypothesis it does not hold."""

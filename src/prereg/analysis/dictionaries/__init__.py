"""Sparse dictionaries of residual-stream updates, one for each update: TopK and L1."""

from __future__ import annotations

from prereg.analysis.dictionaries.dictionary import Dictionary
from prereg.analysis.dictionaries.library import Library
from prereg.analysis.dictionaries.measuring import measure
from prereg.analysis.dictionaries.settings import DictionarySettings, Kind, fit_names

__all__ = ["Dictionary", "DictionarySettings", "Kind", "Library", "fit_names", "measure"]

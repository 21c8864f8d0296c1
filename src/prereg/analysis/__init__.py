"""Measurements on activations: each module has one frozen settings model and one `measure`."""

from __future__ import annotations

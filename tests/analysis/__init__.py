"""Tests of the measurements on activations."""

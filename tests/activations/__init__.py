"""Tests of the activations package."""

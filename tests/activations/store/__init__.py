"""Stores: reading, writing, naming."""

"""Tests of model loading, with the stand-ins that they share."""

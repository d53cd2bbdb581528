"""Stands in for pyarrow, which tests do not need: the part of it that python/meridian_data.py calls."""

"""Takes the place of pyarrow in tests, so that they do not need it. Has only what
python/meridian_data.py calls."""

"""Finds the errors in a document by the notation of kinds.py, each with its position."""
import re

QUANTITY = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([KMGTPE]i|[munkMGTPE]|[eE][+-]?\d+)?")
LABEL = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


def is_int(v):
    return isinstance(v, int) and not isinstance(v, bool)


SCALARS = {
    "str": lambda v: isinstance(v, str), "int": is_int, "bool": lambda v: isinstance(v, bool), "any": lambda v: True,
    "quantity": lambda v: is_int(v) or isinstance(v, str) and QUANTITY.fullmatch(v) is not None,
    "port": lambda v: is_int(v) and 0 < v < 65536 or isinstance(v, str) and re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?", v) is not None,
    "part": lambda v: is_int(v) or isinstance(v, str) and re.fullmatch(r"\d+%", v) is not None,
}


def faults(value, want, at):
    """What is wrong with the value by our notation, each with its place."""
    if isinstance(want, str):
        return [] if SCALARS[want](value) else [f"{at}: {value!r} is no {want}"]
    if isinstance(want, tuple):
        return [] if value in want and isinstance(value, str) else [f"{at}: {value!r} is none of {', '.join(want)}"]
    if isinstance(want, list):
        if not isinstance(value, list):
            return [f"{at}: {value!r} is no list"]
        return [f for i, v in enumerate(value) for f in faults(v, want[0], f"{at}[{i}]")]
    if not isinstance(value, dict):
        return [f"{at}: {value!r} is no object"]
    if "*" in want:
        return [f for k, v in value.items() for f in faults(v, want["*"], f"{at}.{k}")] + [
            f"{at}: {k!r} is no name of a label" for k in value if at.endswith(("labels", "annotations", "matchLabels")) and not LABEL.fullmatch(k)]
    known = {k.rstrip("!"): v for k, v in want.items()}
    found = [f"{at}: no {k[:-1]}" for k in want if k.endswith("!") and k[:-1] not in value]
    for k, v in value.items():
        found += faults(v, known[k], f"{at}.{k}") if k in known else [f"{at}: unknown field {k}"]
    return found

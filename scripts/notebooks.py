#!/usr/bin/env python3
"""Executes the notebooks of docs/tutorial/notebooks in place: each code cell in its order, in one namespace and in a fresh folder, as
`jupyter nbconvert --execute` does, without Jupyter. What a cell prints is its output, and the value of its last expression: as SVG where
it has a picture, as text else.

    PATH=build/bin:$PATH python3 scripts/notebooks.py [--to DIR]

With --to the executed notebooks go there and docs/tutorial/notebooks stays as it is: the test e2e/notebooks compares them."""
import ast
import contextlib
import io
import json
import os
import shutil
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NOTEBOOKS = os.path.join(TOP, "docs", "tutorial", "notebooks")


def lines(text):
    return text.splitlines(keepends=True)


def execute(cell, space, number):
    tree = ast.parse("".join(cell["source"]))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), space)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), space)
    cell["execution_count"], cell["outputs"] = number, []
    if printed.getvalue():
        cell["outputs"].append({"name": "stdout", "output_type": "stream", "text": lines(printed.getvalue())})
    if value is not None:
        data = {"text/plain": [f"<{type(value).__name__}>"]} if hasattr(value, "_repr_svg_") else {"text/plain": lines(repr(value))}
        if hasattr(value, "_repr_svg_"):
            data["image/svg+xml"] = lines(value._repr_svg_())
        cell["outputs"].append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})


def main():
    to = sys.argv[sys.argv.index("--to") + 1] if "--to" in sys.argv else NOTEBOOKS
    sys.path[:0] = [NOTEBOOKS, os.path.join(TOP, "python")]
    here = os.getcwd()
    for name in sorted(n for n in os.listdir(NOTEBOOKS) if n.endswith(".ipynb")):
        with open(os.path.join(NOTEBOOKS, name), encoding="utf-8") as f:
            book = json.load(f)
        folder = tempfile.mkdtemp(prefix="mrd-notebook-")
        os.chdir(folder)
        try:
            space = {"__name__": "__main__"}
            for number, cell in enumerate((c for c in book["cells"] if c["cell_type"] == "code"), 1):
                execute(cell, space, number)
        finally:
            os.chdir(here)
            shutil.rmtree(folder)
        path = os.path.join(to, name)
        with open(path + ".new", "w", encoding="utf-8") as f:
            json.dump(book, f, indent=1, ensure_ascii=False)
            f.write("\n")
        os.rename(path + ".new", path)
        print(path)


main()

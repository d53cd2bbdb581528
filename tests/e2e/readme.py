"""Returns the commands that a document prints, for tests that run them unchanged."""
import os
import re

from lib import SOURCE


def blocks(document, title):
    """The blocks of shell below a title of the document, in their order; those below its subtitles, too."""
    with open(os.path.join(SOURCE, document)) as f:
        lines = f.read().splitlines()
    depth, inside, fence, found = len(title.split(" ")[0]), False, None, []
    for line in lines:
        if fence is not None:
            if line == "```":
                found += ["".join(text + "\n" for text in fence[1:])] if inside and fence[0] == "```sh" else []
                fence = None
            else:
                fence.append(line)
        elif line.startswith("```"):
            fence = [line]
        elif re.match("#+ ", line):
            inside = line == title or (inside and len(line.split(" ")[0]) > depth)
    return found


def by_place(document, title):
    """[(place, commands)]: of the blocks whose first line is a comment that says where they are run."""
    found = []
    for block in blocks(document, title):
        first, rest = block.split("\n", 1)
        if first.startswith("# "):
            found.append((first[2:], rest))
    return found

"""docs/reference/losses.md has one row for each cause of base/loss_cause.def, in its words. Usage: losses.py [--write]: --write makes the table again."""
import os
import re
import sys

ROOT = os.environ.get("MERIDIAN_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TABLE, PAGE = os.path.join(ROOT, "base/loss_cause.def"), os.path.join(ROOT, "docs/reference/losses.md")
HEAD = "| Cause | What happened to the events | Counted by | Makes unknown |\n|---|---|---|---|\n"
EFFECTS = {"HOLE": "events of the node in this time", "THREAD": "annotations and calls of the thread", "UNWANTED": "nothing: nobody requested them",
           "NONE": "nothing: no event was lost"}

with open(TABLE, encoding="utf-8") as f:
    text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
rows = re.findall(r'LOSS_CAUSE\((\w+), "([^"]+)", (\w+),\s*"([^"]+)",\s*((?:"[^"]*"\s*)+)\)', text)
if len(rows) != text.count("LOSS_CAUSE("):
    sys.exit(f"FAILED {TABLE}: {text.count('LOSS_CAUSE(')} causes, of which {len(rows)} can be read")
made = HEAD + "".join(f"| `{name}` | {''.join(re.findall(chr(34) + '([^' + chr(34) + ']*)' + chr(34), words))} | {where} | {EFFECTS[effect]} |\n"
                      for _, name, effect, where, words in rows)
with open(PAGE, encoding="utf-8") as f:
    page = f.read()
now = re.search(re.escape(HEAD) + r"(?:\|.*\n)*", page)
if now is None:
    sys.exit(f"FAILED {PAGE}: has no table with the head of this check")
if "--write" in sys.argv:
    with open(PAGE, "w", encoding="utf-8") as f:
        f.write(page.replace(now[0], made))
elif now[0] != made:
    sys.exit(f"FAILED {PAGE}: its table differs from base/loss_cause.def; python3 tests/house/losses.py --write makes it again")
print(f"{len(rows)} causes")

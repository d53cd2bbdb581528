"""Finds the places of a C source where one small change makes a mutant. Text in comments, strings, preprocessor lines,
static assertions, assertions and log calls is left alone."""
import re

TOKEN = re.compile(r"""
    (?P<space>\s+|//[^\n]*|/\*.*?\*/)
  | (?P<text>L?"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+')
  | (?P<name>[A-Za-z_]\w*)
  | (?P<number>0[xX][0-9a-fA-F]+[uUlL]*|\d+\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\d+[uUlL]*)
  | (?P<op><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)
""", re.X | re.S)

SWAPS = {
    "relation": {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="},
    "logic": {"&&": "||", "||": "&&"},
    "sum": {"+": "-", "-": "+", "+=": "-=", "-=": "+=", "++": "--", "--": "++"},
    "bits": {"<<": ">>", ">>": "<<", "&": "|", "|": "&", "|=": "&=", "&=": "|=", "/": "*"},
}
# Calls whose absence only a power cut, a crash or a full disk shows.
DURABLE = re.compile(r"^(fsync|fdatasync|syncfs|unlink|unlinkat|rename|renameat|ftruncate|mrd_sync_dir|sync_\w+|\w+_sync)$")
# Calls that only tell people something, or give back memory: nothing of what a unit test can see depends on them.
IDLE = re.compile(r"^(free|__builtin_prefetch|close|fclose|closedir|va_end|assert|MRD_ASSERT|static_assert|_Static_assert|(mrd_)?log\w*|perror|"
                  r"fprintf|printf|mrd_why\w*|\w+_(free|fini|close|lock|unlock))$")
SILENT = re.compile(r"^(static_assert|_Static_assert|MRD_ASSERT|assert|(mrd_)?log_?\w*|mrd_why_\w+|__attribute__|sizeof)$")
MEMORY = re.compile(r"^(MRD_VEC_\w+|mrd_buf_room|column_begin|malloc|calloc|strdup)$")
# Comparisons of typed values (base/clock.h) by their names.
ORDER = re.compile(r"^(mrd_\w+_)(before|after)$")
NOT_CALLS = {"if", "while", "for", "switch", "return", "sizeof", "do", "else", "case"}


class Token:
    __slots__ = ("kind", "text", "at", "line")

    def __init__(self, kind, text, at, line):
        self.kind, self.text, self.at, self.line = kind, text, at, line


class Change:
    """Replaces text[at:end] by `new`; `what` names it, `what` and the line's text stay the same when lines move."""
    __slots__ = ("kind", "at", "end", "new", "what", "line", "function", "source", "path")

    def __init__(self, kind, at, end, new, what, line):
        self.kind, self.at, self.end, self.new, self.what, self.line = kind, at, end, new, what, line

    def key(self):
        """Names the change in the lists. The line's comment is no part of it, so that rewording a comment changes no list."""
        return (self.path, self.function, re.sub(r"\s*/\*.*?(\*/|$)", "", self.source).strip(), self.what)

    def __str__(self):
        return f"{self.path}:{self.line}: {self.function}: {self.source}: {self.what}"


def blank_preprocessor(text):
    """The text with preprocessor lines (and their continuations) as spaces, every offset kept."""
    def spaces(m):
        return re.sub(r"[^\n]", " ", m.group(0))
    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", spaces, text, flags=re.M | re.S)


def tokens_of(text):
    """Tokens without spaces and comments."""
    found, line, at = [], 1, 0
    for m in TOKEN.finditer(blank_preprocessor(text)):
        if m.lastgroup != "space":
            found.append(Token(m.lastgroup, m.group(0), m.start(), line))
        line += m.group(0).count("\n")
        at = m.end()
    assert at == len(text)
    return found


def closing(tokens, i):
    """Index of the bracket that closes the one at i."""
    pair = {"(": ")", "[": "]", "{": "}"}
    depth = 0
    for k in range(i, len(tokens)):
        if tokens[k].text == tokens[i].text:
            depth += 1
        elif tokens[k].text == pair[tokens[i].text]:
            depth -= 1
            if depth == 0:
                return k
    return len(tokens) - 1


def silent_places(tokens):
    """Indexes of tokens inside calls whose arguments are not the program's logic, and in array sizes."""
    found = set()
    for i, t in enumerate(tokens[:-1]):
        if t.kind == "name" and SILENT.match(t.text) and tokens[i + 1].text == "(":
            found.update(range(i, closing(tokens, i + 1) + 1))
        if t.text == "[" and i >= 2 and tokens[i - 1].kind == "name" and \
                (tokens[i - 2].kind == "name" and tokens[i - 2].text not in ("return", "else") or
                 tokens[i - 2].text == "*" and tokens[i - 3].kind == "name" and tokens[i - 3].text in ("char", "const")):
            found.update(range(i, closing(tokens, i) + 1)) # a declaration's size
        if t.text == "{" and tokens[i + 1].text == "0" and i + 2 < len(tokens) and tokens[i + 2].text == "}":
            found.add(i + 1)
    return found


def larger_places(tokens):
    """Indexes of tokens inside what allocates, where a larger number is only more memory."""
    found = set()
    for i, t in enumerate(tokens[:-1]):
        if t.kind == "name" and MEMORY.match(t.text) and tokens[i + 1].text == "(":
            found.update(range(i, closing(tokens, i + 1) + 1))
    return found


def functions_of(tokens):
    """[(first, last, name)]: token ranges of the bodies of functions."""
    found, i = [], 0
    while i < len(tokens):
        if tokens[i].text == "(" and i > 0 and tokens[i - 1].kind == "name":
            end = closing(tokens, i)
            if end + 1 < len(tokens) and tokens[end + 1].text == "{":
                last = closing(tokens, end + 1)
                found.append((end + 1, last, tokens[i - 1].text))
                i = last
            else:
                i = end
        elif tokens[i].text == "{":
            i = closing(tokens, i)
        i += 1
    return found


def is_operand_end(t):
    return t.kind in ("number", "text") or t.text in (")", "]") or \
        t.kind == "name" and t.text not in ("return", "case", "else")


def number_changes(t):
    m = re.match(r"^(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)$", t.text)
    if m is None or re.match(r"0\d", m.group(1)): # octal: the mode of a file
        return []
    n = int(m.group(1), 0)
    show = hex if m.group(1)[:2] in ("0x", "0X") else str
    values = [n + 1] + ([n - 1] if n > 0 else [])
    return [show(v) + m.group(2) for v in values]


def opening(tokens, i):
    """Index of the bracket that the one at i closes."""
    depth = 0
    for k in range(i, -1, -1):
        depth += (tokens[k].text == ")") - (tokens[k].text == "(")
        if depth == 0:
            return k
    return 0


def is_condition_end(tokens, i):
    """Whether the bracket at i ends what stands behind `if`, `for` or `while`: not a cast."""
    return tokens[opening(tokens, i) - 1].text in ("if", "for", "while", "switch")


def is_without_memory(tokens, i):
    """Whether the return at i says MRD_NOMEM, or stands behind an `if` of nothing but a lack of memory: no test gets there."""
    end = i
    while tokens[end].text != ";":
        end += 1
    if any(t.text == "MRD_NOMEM" for t in tokens[i:end]):
        return True
    if tokens[i - 1].text != ")":
        return False
    parts = [[]]
    for t in tokens[opening(tokens, i - 1):i]:
        if t.text in ("||", "&&"):
            parts.append([])
        parts[-1].append(t)
    return all(any(MEMORY.match(t.text) for t in part) for part in parts)


def is_descriptor_test(tokens, i):
    """Whether token i belongs to `fd < 0`, `fd >= 0` or `(fd = open(...)) < 0`: a file of a daemon is never descriptor 0."""
    op = i if tokens[i].text in ("<", ">=") else i - 1
    if tokens[op].text not in ("<", ">=") or tokens[op + 1].text != "0":
        return False
    k = op - 1
    if tokens[k].text == ")":
        depth = 0
        while k >= 0 and (depth := depth + (tokens[k].text == ")") - (tokens[k].text == "(")) > 0:
            k -= 1
        while tokens[k].text not in ("=", ")", ";"):
            k += 1
        k -= 1
    return tokens[k].kind == "name" and re.search(r"(^|_)fd$", tokens[k].text) is not None


def changes_at(tokens, i, silent, larger):
    """The changes that begin at token i."""
    t, before = tokens[i], tokens[i - 1]
    after = tokens[i + 1]

    def swap(kind, new):
        return Change(kind, t.at, t.at + len(t.text), new, f"{t.text} -> {new}", t.line)
    if i in silent or is_descriptor_test(tokens, i):
        return
    for kind, table in SWAPS.items():
        if t.kind == "op" and t.text in table and (is_operand_end(before) or t.text in ("++", "--")):
            yield swap(kind, table[t.text])
    order = ORDER.match(t.text) if t.kind == "name" and after.text == "(" else None
    if order:
        yield swap("relation", order.group(1) + {"before": "after", "after": "before"}[order.group(2)])
    if t.text == "!" and "PLANTED" not in after.text and tokens[i - 2].text not in ("if", "while", "void"): # they are negated, or cast
        yield Change("condition", t.at, t.at + 1, "", "no !", t.line)
    if t.kind == "number":
        for new in number_changes(t)[1 if i in larger else 0:]:
            yield swap("constant", new)
    if t.text in ("true", "false") and not (before.text == "return" and is_without_memory(tokens, i - 1)):
        yield swap("truth", "false" if t.text == "true" else "true")
    if t.text in ("if", "while") and after.text == "(":
        last = tokens[closing(tokens, i + 1)]
        yield Change("condition", after.at, last.at + 1, None, f"{t.text} negated", t.line)
    if t.kind == "name" and after.text == "(" and t.text not in NOT_CALLS and not IDLE.match(t.text):
        end = closing(tokens, i + 1)
        starts = before.text in (";", "{", "}") or before.text == ")" and is_condition_end(tokens, i - 1)
        if DURABLE.match(t.text):
            yield Change("durable", t.at, tokens[end].at + 1, "0", f"no {t.text}()", t.line)
        elif starts and tokens[end + 1].text == ";":
            yield Change("call", t.at, tokens[end].at + 1, "(void) 0", f"no {t.text}()", t.line)
    if t.text == "return" and before.text == ")":
        end = i
        while tokens[end].text != ";":
            end += 1
        if is_without_memory(tokens, i):
            return
        yield Change("return", t.at, tokens[end].at, "", "no return", t.line)


def changes_of(path, text):
    """Every change of one source."""
    tokens = tokens_of(text)
    silent, larger, lines, found = silent_places(tokens), larger_places(tokens), text.split("\n"), []
    for first, last, name in functions_of(tokens):
        seen = {}
        for i in range(first + 1, last):
            for c in changes_at(tokens, i, silent, larger):
                c.path, c.function = path, name
                c.source = re.sub(r"\s+", " ", lines[c.line - 1].strip())
                if c.new is None:
                    c.new = f"(!{text[c.at:c.end]})"
                same = (c.source, c.what) # also where two lines of a function are alike
                seen[same] = seen.get(same, 0) + 1
                if seen[same] > 1:
                    c.what += f" #{seen[same]}"
                found.append(c)
    return found


def apply(text, change):
    return text[:change.at] + change.new + text[change.end:]

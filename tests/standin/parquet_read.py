"""A reader of Parquet files in plain Python: the judge of what Meridian writes, on machines without another reader. It checks page
checksums, counts and statistics while it reads.

    for group in parquet_read.File("part-00000.parquet").groups():
        print(group["name"][:3])

Reads flat columns and lists of text; PLAIN, dictionaries, DELTA_BINARY_PACKED; data pages v1; uncompressed, gzip and
(with libzstd) zstd. About 200,000 values a second.
"""

import ctypes
import ctypes.util
import struct
import zlib
from typing import Any, BinaryIO, Dict, Iterator, List, Optional, Sequence, Union

__all__ = ["File", "ParquetError"]

# What a reader of damaged bytes stumbles over: places, numbers and texts that are not there.
_STUMBLES = (LookupError, TypeError, AttributeError, ValueError, OverflowError, ZeroDivisionError, RecursionError, MemoryError, struct.error, zlib.error)

_PAGE_MOST = 1 << 30  # bytes of a page, unpacked
_VALUES_MOST = 1 << 24  # values of a column in a row group: runs make any number of them from a few bytes

_TYPES = {0: "bool", 1: "int32", 2: "int64", 4: "float", 5: "double", 6: "bytes"}


class ParquetError(ValueError):
    """The file is not a Parquet file, is damaged, or uses what this reader does not know; the text says which."""


class _Thrift:
    """Thrift's compact protocol: structs as {field id: value}."""

    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def varint(self):
        value = shift = 0
        while True:
            b = self.byte()
            value |= (b & 0x7f) << shift
            shift += 7
            if b < 0x80:
                return value

    def zigzag(self):
        v = self.varint()
        return v >> 1 ^ -(v & 1)

    def value(self, kind):
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            return self.byte()
        if kind in (4, 5, 6):
            return self.zigzag()
        if kind == 7:
            self.at += 8
            return struct.unpack_from("<d", self.data, self.at - 8)[0]
        if kind == 8:
            n = self.varint()
            self.at += n
            return bytes(self.data[self.at - n:self.at])
        if kind in (9, 10):
            head = self.byte()
            n = head >> 4 if head >> 4 != 15 else self.varint()
            return [self.value(head & 15) if head & 15 not in (1, 2) else self.byte() == 1 for _ in range(n)]
        if kind == 12:
            return self.struct()
        raise ParquetError(f"unknown Thrift type {kind} at byte {self.at}")

    def struct(self):
        out, field = {}, 0
        while True:
            head = self.byte()
            if head == 0:
                return out
            field = field + (head >> 4) if head >> 4 else self.zigzag()
            out[field] = self.value(head & 15)


_zstd = None


def _unzstd(data, size):
    global _zstd
    if _zstd is None:
        name = ctypes.util.find_library("zstd") or "libzstd.so.1"
        try:
            _zstd = ctypes.CDLL(name)
        except OSError as e:
            raise ParquetError(f"zstd pages need libzstd (Debian: libzstd1) or pyarrow: {e}") from None
        _zstd.ZSTD_decompress.restype = ctypes.c_size_t
        _zstd.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    out = ctypes.create_string_buffer(max(size, 1))
    if _zstd.ZSTD_decompress(out, size, data, len(data)) != size:
        raise ParquetError("a page does not decompress to its size")
    return out.raw[:size]


def _unpack(codec, data, size):
    if not 0 <= size <= _PAGE_MOST:  # it is given to the library as the room that there is
        raise ParquetError(f"a page says that it has {size} bytes")
    if codec == 0:
        return data
    if codec == 2:
        out = zlib.decompressobj(31).decompress(data, size + 1)
        if len(out) != size:
            raise ParquetError("a page does not decompress to its size")
        return out
    if codec == 6:
        return _unzstd(data, size)
    raise ParquetError(f"compression {codec} is not read here: install pyarrow")


def _hybrid(data, at, end, width, n):
    """n values of runs and packed bits in data[at:end]."""
    out, t = [], _Thrift(data, at)
    while len(out) < n:
        if t.at >= end:
            raise ParquetError("a page ends inside its runs")
        head = t.varint()
        if head & 1:
            size = (head >> 1) * width
            bits = int.from_bytes(data[t.at:t.at + size], "little")
            t.at += size
            mask = (1 << width) - 1
            for _ in range(min((head >> 1) * 8, n - len(out))):
                out.append(bits & mask)
                bits >>= width
        else:
            size = (width + 7) // 8
            if head >> 1 > n - len(out):
                raise ParquetError("a run is longer than its page")
            out += [int.from_bytes(data[t.at:t.at + size], "little")] * (head >> 1)
            t.at += size
    return out


def _signed(v):
    v &= (1 << 64) - 1
    return v - (1 << 64) if v >> 63 else v


def _delta(data, at, most):
    """The values there, which are at most so many."""
    t = _Thrift(data, at)
    block, minis, n, value = t.varint(), t.varint(), t.varint(), t.zigzag()
    if n > most:
        raise ParquetError(f"a page says that it has {n} values, of {most}")
    out = [value] if n else []
    while len(out) < n:
        least = t.zigzag()
        widths = [t.byte() for _ in range(minis)]
        for width in widths:
            if len(out) >= n:
                break
            count = block // minis
            size = count * width // 8
            bits = int.from_bytes(data[t.at:t.at + size], "little")
            t.at += size
            mask = (1 << width) - 1
            for _ in range(min(count, n - len(out))):
                value = _signed(value + least + (bits & mask))
                out.append(value)
                bits >>= width
    return out


def _plain(kind, data, at, n):
    if kind == "bool":
        return [bool(data[at + i // 8] >> i % 8 & 1) for i in range(n)]
    if kind == "bytes":
        out = []
        for _ in range(n):
            size = struct.unpack_from("<I", data, at)[0]
            if at + 4 + size > len(data):
                raise ParquetError("a text is longer than its page")
            out.append(data[at + 4:at + 4 + size])
            at += 4 + size
        return out
    code = {"int32": "i", "int64": "q", "float": "f", "double": "d"}[kind]
    return list(struct.unpack_from(f"<{n}{code}", data, at))


class _Column:
    def __init__(self, name, kind, path, optional, is_list, text):
        self.name, self.kind, self.path, self.optional, self.is_list, self.text = name, kind, path, optional, is_list, text


class File:
    """One Parquet file. .columns: names; .rows: how many; .notes: {key: value}; groups(): row groups, one after the other,
    as {column: list of values}. path may also be bytes, or an object with read. Every damage that is seen is a ParquetError."""

    def __init__(self, path: Union[str, bytes, bytearray, BinaryIO], verify: bool = True) -> None:
        if isinstance(path, (bytes, bytearray)):
            data = bytes(path)
        elif hasattr(path, "read"):
            data = path.read()
        else:
            with open(path, "rb") as f:
                data = f.read()
        self.data, self.verify = data, verify
        try:
            self._open(path)
        except _STUMBLES as e:
            raise e if isinstance(e, ParquetError) else ParquetError(f"the footer is damaged: {e!r}") from None

    def _open(self, path: Any) -> None:
        data = self.data
        if len(data) < 12 or data[:4] != b"PAR1" or data[-4:] != b"PAR1":
            raise ParquetError(f"{path if isinstance(path, str) else 'the data'} is not a whole Parquet file")
        size = struct.unpack_from("<I", data, len(data) - 8)[0]
        if size + 12 > len(data):
            raise ParquetError("the footer is longer than the file")
        meta = _Thrift(data, len(data) - 8 - size).struct()
        self.rows: int = meta[3]
        self.meta = meta
        self.notes: Dict[str, str] = {n[1].decode(): n.get(2, b"").decode() for n in meta.get(5, [])}
        self._columns = list(self._leaves(meta[2]))
        self.columns: List[str] = [c.name for c in self._columns]
        if sum(g[3] for g in meta[4]) != self.rows:
            raise ParquetError("the rows of the groups are not those of the file")

    @staticmethod
    def _leaves(schema):
        i, end = 1, schema[0].get(5, 0)
        for _ in range(end):
            e = schema[i]
            name = e[4].decode()
            if e.get(5):  # a list: group, repeated group, element
                if e.get(6) != 3 or schema[i + 1].get(3) != 2:
                    raise ParquetError(f"column {name} is nested")
                leaf = schema[i + 2]
                yield _Column(name, _TYPES[leaf[1]], [name, schema[i + 1][4].decode(), leaf[4].decode()], True, True, leaf.get(6) == 0)
                i += 3
            else:
                yield _Column(name, _TYPES[e[1]], [name], e.get(3) == 1, False, e.get(6) == 0)
                i += 1

    def groups(self, columns: Optional[Sequence[str]] = None) -> Iterator[Dict[str, List[Any]]]:
        for group in self.meta[4]:
            out = {}
            for column, chunk in zip(self._columns, group[1]):
                if columns is None or column.name in columns:
                    try:
                        out[column.name] = self._chunk(column, chunk[3], group[3])
                    except _STUMBLES as e:
                        raise e if isinstance(e, ParquetError) else ParquetError(f"column {column.name} is damaged: {e!r}") from None
            yield out

    def read(self, columns: Optional[Sequence[str]] = None) -> Dict[str, List[Any]]:
        """All rows as {column: list}."""
        out: Dict[str, List[Any]] = {c: [] for c in (columns or self.columns)}
        for group in self.groups(columns):
            for name, values in group.items():
                out[name] += values
        return out

    def _chunk(self, column, meta, rows):
        at, values, out, dictionary = meta.get(11, meta[9]), 0, [], None
        if not 0 <= meta[5] <= _VALUES_MOST or not (0 <= rows <= meta[5] if column.is_list else rows == meta[5]):
            raise ParquetError(f"column {column.name} says that it has {meta[5]} values in a group of {rows} rows; at most {_VALUES_MOST} are read here: install pyarrow")
        while values < meta[5]:
            t = _Thrift(self.data, at)
            head = t.struct()
            body = self.data[t.at:t.at + head[3]]
            at = t.at + head[3]
            if self.verify and 4 in head and zlib.crc32(body) != head[4] & 0xffffffff:
                raise ParquetError(f"column {column.name}: a page's checksum is wrong")
            page = _unpack(meta[4], body, head[2])
            if head[1] == 2:
                dictionary = _plain(column.kind, page, 0, head[7][1])
                continue
            if head[1] != 0:
                raise ParquetError(f"page type {head[1]} is not read here: install pyarrow")
            if not 0 < head[5][1] <= meta[5] - values:
                raise ParquetError(f"column {column.name}: a page says that it has {head[5][1]} of the {meta[5] - values} values that are left")
            values += head[5][1]
            out += self._page(column, page, head[5], dictionary)
        if values != meta[5] or len(out) != rows:
            raise ParquetError(f"column {column.name} has {len(out)} rows, its group {rows}")
        if self.verify:
            self._check_statistics(column, meta.get(12), out)
        if column.text:
            if column.is_list:
                return [v if v is None else [x if x is None else x.decode() for x in v] for v in out]
            return [v if v is None else v.decode() for v in out]
        return out

    def _levels(self, page, at, most, n):
        size = struct.unpack_from("<I", page, at)[0]
        return _hybrid(page, at + 4, at + 4 + size, most.bit_length(), n), at + 4 + size

    def _page(self, column, page, head, dictionary):
        n, at, repeats, levels = head[1], 0, None, None
        if column.is_list:
            repeats, at = self._levels(page, at, 1, n)
            levels, at = self._levels(page, at, 3, n)
            here = sum(v == 3 for v in levels)
        elif column.optional:
            levels, at = self._levels(page, at, 1, n)
            here = sum(levels)
        else:
            here = n
        if here == 0:
            values = []
        elif head[2] == 0:
            values = _plain(column.kind, page, at, here)
        elif head[2] in (2, 8):
            values = [dictionary[i] for i in _hybrid(page, at + 1, len(page), page[at], here)]
        elif head[2] == 5:
            values = _delta(page, at, here)
        else:
            raise ParquetError(f"encoding {head[2]} is not read here: install pyarrow")
        if len(values) != here:
            raise ParquetError(f"column {column.name}: a page has {len(values)} values, says {here}")
        if levels is None:
            return values
        it = iter(values)
        if not column.is_list:
            return [next(it) if v else None for v in levels]
        out = []
        for repeat, level in zip(repeats, levels):
            if repeat == 0:
                out.append(None if level == 0 else [])
            if level >= 2:
                out[-1].append(next(it) if level == 3 else None)
        return out

    @staticmethod
    def _check_statistics(column, stats, out):
        """Readers skip by these without looking, so a false one is data lost."""
        if not stats:
            return
        if 3 in stats and stats[3] != sum(v is None for v in out):
            raise ParquetError(f"column {column.name}: null_count {stats[3]} is false")
        have = [v for v in out if v is not None]
        if 5 not in stats or column.is_list or not have:
            return
        code = {"int64": "<q", "double": "<d", "float": "<f", "int32": "<i"}.get(column.kind)
        most, least = (stats[5], stats[6]) if code is None else (struct.unpack(code, stats[5])[0], struct.unpack(code, stats[6])[0])
        if not all(least <= v <= most for v in have):
            raise ParquetError(f"column {column.name}: a value lies outside [{least!r}, {most!r}]")

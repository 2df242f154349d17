"""Character vectors of an R lazy-load database, read without R."""

from __future__ import annotations

import bz2
import gzip
import lzma
import struct
import zlib
from pathlib import Path

# Object kinds and flags of R's serialisation, as far as they matter here.
_SYMBOL, _PAIRS, _CHARACTERS, _LOGICALS, _INTEGERS, _STRINGS, _LIST = 1, 2, 9, 10, 13, 16, 19
_SPECIAL, _REFERENCE = 0xF1, 0xFF  # from _SPECIAL on: NULL, the global environment and the like
_ATTRIBUTES, _TAG = 0x200, 0x400


def r_texts(base: Path) -> dict[str, str]:
    """Character vectors of the database `base`.rdx and `base`.rdb, each joined by newlines."""
    index = _named(_Reader(gzip.decompress(base.with_suffix(".rdx").read_bytes())).item())
    data = base.with_suffix(".rdb").read_bytes()
    texts: dict[str, str] = {}
    for name, place in _named(index["variables"]).items():
        if not isinstance(place, list):
            continue
        value = _Reader(_unpack(data[place[0] : place[0] + place[1]])).item()
        lines = value[0] if isinstance(value, tuple) else value
        if isinstance(lines, list):
            texts[name] = "\n".join(str(line or "") for line in lines)
    return texts


def _named(value: object) -> dict[str, object]:
    """Turn R's named list into a dictionary."""
    if not (isinstance(value, tuple) and isinstance(value[1], dict)):
        raise ValueError("not a named R list")
    return dict(zip(value[1]["names"], value[0], strict=True))


def _unpack(raw: bytes) -> bytes:
    """Undo R's compression: four bytes of length, then perhaps one letter for the method."""
    if raw[4:5] == b"2":
        return bz2.decompress(raw[5:])
    if raw[4:5] == b"Z":
        return lzma.decompress(raw[5:])
    return zlib.decompress(raw[4:])


class _Reader:
    """Read R's binary serialisation as far as character vectors in lists need it."""

    def __init__(self, data: bytes) -> None:
        if data[:2] != b"X\n":
            raise ValueError("not R's binary serialisation")
        self._data, self._at = data, 2
        self._symbols: list[object] = []
        version = self._ints(3)[0]
        if version >= 3:
            self._bytes(self._int())  # name of the native encoding

    def item(self) -> object:
        """Next object: vectors become lists, a vector with attributes a (list, dict) pair."""
        flags = self._int()
        kind = flags & 0xFF
        if kind == _REFERENCE:
            return self._symbols[(flags >> 8) - 1]
        if kind >= _SPECIAL:
            return None
        if kind == _SYMBOL:
            self._symbols.append(self.item())
            return self._symbols[-1]
        if kind == _PAIRS:
            return self._pairs(flags)
        if kind == _CHARACTERS:
            size = self._int()
            return None if size < 0 else self._bytes(size).decode("utf-8", "replace")
        values = self._vector(kind)
        return (values, self.item()) if flags & _ATTRIBUTES else values

    def _pairs(self, flags: int) -> dict[object, object]:
        pairs: dict[object, object] = {}
        while flags & 0xFF == _PAIRS:
            if flags & _ATTRIBUTES:
                self.item()
            tag = self.item() if flags & _TAG else None
            pairs[tag] = self.item()
            flags = self._int()
        return pairs

    def _vector(self, kind: int) -> list[object]:
        count = self._int()
        if kind in (_LOGICALS, _INTEGERS):
            return list(self._ints(count))
        if kind in (_STRINGS, _LIST):
            return [self.item() for _ in range(count)]
        raise ValueError(f"R object of kind {kind} is not handled")

    def _bytes(self, count: int) -> bytes:
        self._at += count
        return self._data[self._at - count : self._at]

    def _ints(self, count: int) -> tuple[int, ...]:
        return struct.unpack(f">{count}i", self._bytes(4 * count))

    def _int(self) -> int:
        return self._ints(1)[0]

"""Where a decision changes over message size, to the byte."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Decide = Callable[[Integers, Integers], Integers]
"""Maps rule numbers (n) and message sizes in bytes (n) to codes (n), equal for equal decisions."""
_SIZES_PER_CALL = 256


class _Brackets(NamedTuple):
    """Pairs of sizes of one rule whose decisions differ, each (n)."""

    rule: Integers
    low: Integers
    high: Integers
    low_code: Integers
    high_code: Integers

    def where(self, mask: NDArray[Any]) -> _Brackets:
        return _Brackets(*(v[mask] for v in self))

    def and_also(self, other: _Brackets) -> _Brackets:
        return _Brackets(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


def grid(largest_bytes: int, measured: Integers) -> Integers:
    """Return sizes from 0 to `largest_bytes`: two per octave, and the measured ones."""
    octaves = np.int64(1) << np.arange(max(largest_bytes, 1).bit_length(), dtype=np.int64)
    sizes = np.concatenate([[0, largest_bytes], octaves, octaves * 3 // 2, measured])
    # np.unique would import numpy.ma, which costs more than all the rest here.
    ordered = np.sort(sizes[sizes <= largest_bytes])
    return ordered[np.diff(ordered, prepend=-1) > 0]


def switch_points(decide: Decide, n_rules: int, sizes: Integers) -> list[list[tuple[int, int]]]:
    """Return per rule the sizes from which on a decision holds, with its code, ascending.

    Between neighbours of `sizes` that are decided differently the change is found to the byte, for
    all rules at once; a decision that comes and goes between two neighbours that agree is not
    seen. `sizes` are bytes, ascending; the first entry of each list is at ``sizes[0]``.
    """
    rules = np.arange(n_rules)
    codes = decide(np.repeat(rules, len(sizes)), np.tile(sizes, n_rules))
    codes = codes.reshape(n_rules, len(sizes))
    rule, at = np.nonzero(codes[:, 1:] != codes[:, :-1])
    brackets = _Brackets(rule, sizes[at], sizes[at + 1], codes[rule, at], codes[rule, at + 1])
    while (wide := brackets.high - brackets.low > 1).any():
        brackets = brackets.where(~wide).and_also(_narrowed(decide, brackets.where(wide)))
    result = [[(int(sizes[0]), int(codes[r, 0]))] for r in range(n_rules)]
    for position in np.lexsort((brackets.high, brackets.rule)).tolist():
        switch = (int(brackets.high[position]), int(brackets.high_code[position]))
        result[int(brackets.rule[position])].append(switch)
    return result


def _narrowed(decide: Decide, wide: _Brackets) -> _Brackets:
    """Cut brackets into equal sections, many if there are few: a call costs more than a size."""
    sections = max(2, _SIZES_PER_CALL // len(wide.rule))
    inner = np.arange(1, sections)
    cuts = wide.low[:, None] + (wide.high - wide.low)[:, None] * inner // sections
    codes = decide(np.repeat(wide.rule, len(inner)), cuts.ravel()).reshape(cuts.shape)
    edges = np.column_stack([wide.low, cuts, wide.high])
    codes = np.column_stack([wide.low_code, codes, wide.high_code])
    row, at = np.nonzero(codes[:, 1:] != codes[:, :-1])
    return _Brackets(
        wide.rule[row], edges[row, at], edges[row, at + 1], codes[row, at], codes[row, at + 1]
    )

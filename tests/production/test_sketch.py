"""Sketches of the seconds of calls: how near their quantiles are, and merging."""

from __future__ import annotations

import math
import shutil
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colltune import process
from colltune.dataset.profile import FIRST_TIME, GAMMA, LAST_TIME, bucket, quantile, summed
from colltune.mpi.libcolltune import NATIVE

SECONDS = st.lists(st.floats(2e-7, 900), min_size=1, max_size=60)
TIMES = st.dictionaries(st.integers(FIRST_TIME, LAST_TIME), st.integers(1, 10**12), max_size=20)


def _times(seconds: list[float]) -> dict[int, int]:
    return Counter(map(bucket, seconds))


@given(SECONDS, SECONDS, st.floats(0, 1))
def test_a_merged_quantile_is_near_the_exact_one(a: list[float], b: list[float], q: float) -> None:
    """A quantile of merged sketches is within 5 % of a value at that rank."""
    found = quantile(summed(_times(a), _times(b)), q)
    exact = sorted(a + b)[math.floor(q * (len(a + b) - 1))]
    assert found == pytest.approx(exact, rel=0.05 + 1e-9)


@given(TIMES, TIMES, TIMES)
def test_merging_takes_any_order(a: dict[int, int], b: dict[int, int], c: dict[int, int]) -> None:
    """What is merged loses no call, in whatever order and grouping."""
    found = summed(summed(a, b), c)
    assert found == summed(a, summed(b, c)) == summed(c, b, a)
    assert sum(found.values()) == sum(sum(each.values()) for each in (a, b, c))
    assert list(found) == sorted(found)


def test_nothing_timed_has_no_quantile() -> None:
    """A sketch without a call tells nothing."""
    assert quantile({}, 0.5) is None


BUCKETS_OF_INPUT = """
#include "sketch.h"
#include <stdio.h>
int main(void) {
    double seconds;
    while (scanf("%la", &seconds) == 1) printf("%d\\n", ct_bucket(seconds));
}
"""


def test_what_jobs_record_has_the_same_buckets(tmp_path: Path) -> None:
    """libcolltune counts a call in the bucket of the same number, around all bounds of buckets."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    (tmp_path / "sketch.h").write_text((NATIVE / "src" / "sketch.h").read_text())
    program, source = tmp_path / "main", tmp_path / "main.c"
    source.write_text(BUCKETS_OF_INPUT)
    compiled = process.run([compiler, "-o", program, source, "-lm"], timeout_s=60.0)
    process.check(compiled, "compiling the buckets")
    bounds = [GAMMA**k for k in range(FIRST_TIME - 3, LAST_TIME + 4)]
    seconds = [0.0, *(b * (1 + d) for b in bounds for d in (-1e-12, 0.0, 1e-12, 0.03))]
    (tmp_path / "seconds").write_text("\n".join(map(float.hex, seconds)))
    with (tmp_path / "seconds").open("rb") as stdin:
        told = process.run([program], timeout_s=60.0, stdin=stdin)
    assert [*map(int, told.stdout.split())] == [bucket(s) for s in seconds]

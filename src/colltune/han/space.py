"""What is tuned: the values of each parameter of table II, and the setups they make."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from colltune.domain import Collective, Configuration, Shape
from colltune.errors import CampaignError
from colltune.mpi.openmpi import han_setups
from colltune.mpi.openmpi.han_setups import ADAPT, TREES, UP_MODULES

SEGSIZES_BYTES = (4096, 16384, 65536, 262144)
TREES_OFFERED = ("binomial", "binary", "pipeline", "linear")
INNER_SEGSIZES_BYTES = (0,)


@dataclass(frozen=True)
class Space:
    """The search space (table II), with coll/adapt's ``ir`` always like its ``ib``.

    "When it is possible to specify the algorithm, we select the same algorithm with the same root
    to perform ir and ib" (sec. III-B.1). ``segsizes_bytes`` are those of coll/han (fs),
    ``inner_bytes`` those of coll/adapt (ibs, irs), ``trees`` its algorithms.
    """

    segsizes_bytes: tuple[int, ...] = SEGSIZES_BYTES
    ups: tuple[str, ...] = tuple(UP_MODULES)
    lows: tuple[str, ...] = ("tuned", "sm")
    trees: tuple[str, ...] = TREES_OFFERED
    inner_bytes: tuple[int, ...] = INNER_SEGSIZES_BYTES

    def __post_init__(self) -> None:
        for name, given, known in (
            ("module between nodes", self.ups, UP_MODULES),
            ("algorithm of coll/adapt", self.trees, TREES),
        ):
            unknown = [word for word in given if word not in known]
            if unknown or not given:
                what = repr(unknown[0]) if unknown else "none at all"
                raise CampaignError(f"{name}: {what} is not one of {', '.join(known)}")
        if not self.segsizes_bytes or not self.lows or not self.inner_bytes:
            raise CampaignError("segment sizes and modules within nodes: at least one of each")
        odd = [size for size in self.segsizes_bytes if size < 1 or size % 4]
        if odd:
            raise CampaignError(f"segments of {odd[0]} bytes: a multiple of 4 above 0 is needed")

    def setups(self, release: str, collective: Collective) -> Iterator[Configuration]:
        """Yield the setups of a collective, each in its one spelling."""
        for segsize in sorted(set(self.segsizes_bytes)):
            for up in self.ups:
                for low in self.lows:
                    for values in self._inner(up, collective):
                        given = {"segsize": segsize, "up": up, "low": low, **values}
                        yield han_setups.canonical(release, han_setups.setup(collective, given))

    def _inner(self, up: str, collective: Collective) -> Iterator[dict[str, int | str]]:
        if up != ADAPT:
            yield {}
            return
        for tree in self.trees:
            for size in self.inner_bytes:
                both: dict[str, int | str] = {"ibalg": tree, "ibs": size}
                if collective is not Collective.BCAST:
                    both |= {"iralg": tree, "irs": size}
                yield both


def segments_of(msize_bytes: int, segsize_bytes: int) -> int:
    """Return the number of segments u of a message; a segment size of 0 does not cut it."""
    return max(1, -(-msize_bytes // segsize_bytes)) if segsize_bytes else 1


def pipeline(release: str, setup: Configuration, msize_bytes: int) -> tuple[Configuration, int]:
    """Return the tasks that a message is made of, and its number of segments.

    Setups whose tasks are the same for the message give the same answer: it is the setup with the
    segment that really runs, which is the whole message where that is smaller.
    """
    cut = han_setups.effective(release, setup, msize_bytes)
    segment = cut.numbers["segsize"] or msize_bytes
    values = dict(cut.parameters) | {"segsize": segment}
    return han_setups.setup(cut.collective, values), segments_of(msize_bytes, segment)


@dataclass(frozen=True)
class Inputs:
    """The inputs of the tuning (table I): collectives, shapes (n, p) and message sizes m."""

    collectives: tuple[Collective, ...]
    shapes: tuple[Shape, ...]
    msizes_bytes: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.collectives or not self.shapes or not self.msizes_bytes:
            raise CampaignError("collectives, shapes and message sizes: at least one of each")
        for collective in self.collectives:
            if collective not in han_setups.COLLECTIVES:
                raise CampaignError(
                    f"{collective}: tasks are known of {', '.join(han_setups.COLLECTIVES)} alone"
                )
        for shape in self.shapes:
            if why := han_setups.why_not_on(shape):
                raise CampaignError(f"{shape}: {why}")
        if min(self.msizes_bytes) < 1:
            raise CampaignError("messages of 1 byte or more are needed")

    @property
    def launched(self) -> Shape:
        """The smallest shape that holds all others."""
        return Shape(max(s.nodes for s in self.shapes), max(s.ppn for s in self.shapes))

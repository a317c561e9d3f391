"""Random files in Open MPI's classic format: good ones, sloppy ones, and ones that are dropped.

They are made without anything that the writer or the parser of colltune does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

# numbers in the file
COLLECTIVES = {
    "allgather": 0,
    "allgatherv": 1,
    "allreduce": 2,
    "alltoall": 3,
    "alltoallv": 4,
    "barrier": 6,
    "bcast": 7,
    "exscan": 8,
    "gather": 9,
    "reduce": 11,
    "reduce_scatter": 12,
    "reduce_scatter_block": 13,
    "scan": 14,
    "scatter": 15,
}
# number in the file -> highest algorithm number of Open MPI 4.1
_HIGHEST = (6, 5, 6, 5, 2, 6, 9, 2, 3, 7, 4, 4, 2, 3)
ALGORITHMS = dict(zip(COLLECTIVES.values(), _HIGHEST, strict=True))
NOT_SELECTABLE = (5, 10, 16, 17, 21)
COMM_SIZES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 16, 17, 40)
THRESHOLDS = (1, 7, 33, 64, 99, 255, 256, 1000, 1023, 1024, 3333, 4096, 8191, 20001, 65536, 1 << 40)
SEGSIZES = (0, 0, 0, 7, 100, 1000, 1024, 4096, 5000, 70000)
FANOUTS = (0, 0, 1, 2, 3, 4, 33, 40)
REQUESTS = (0, 1, 2, 5)

RuleNumbers = tuple[int, ...]


@dataclass(frozen=True)
class Style:
    """How sloppy a file is: the odds of each kind of slip.

    ``one_rule`` are collectives that get a single rule for all sizes of a communicator.
    """

    name: str
    unsorted: float = 0.0
    unknown: float = 0.0
    duplicate: float = 0.0
    two_processes_everywhere: float = 0.0
    one_rule: tuple[int, ...] = ()
    respell: Callable[[Random, str], str] = lambda _, text: text
    header: str = ""


def random_file(rng: Random, style: Style) -> str:
    """Return the text of a random file of that style."""
    with_requests = style.header.endswith("-2\n")
    ids = rng.sample(sorted(ALGORITHMS), rng.randint(9, len(ALGORITHMS)))
    if rng.random() < style.duplicate:
        ids += [rng.choice(ids), rng.choice(NOT_SELECTABLE)]
    lines = [f"{len(ids)}"]
    for number in ids:
        sizes = _some(rng, COMM_SIZES, 5, style.unsorted)
        lines += [f"{number}", f"{len(sizes)}"]
        for at, size in enumerate(sizes):
            only_two = size == 2 and sizes[at + 1 : at + 2] == [3]
            rules = _rules(rng, style, number, only_two=only_two)
            lines.append(f"{size} {len(rules)}")
            extra = [f" {rng.choice(REQUESTS)}" if with_requests else "" for _ in rules]
            lines += [
                " ".join(map(str, rule)) + more for rule, more in zip(rules, extra, strict=True)
            ]
    return style.respell(rng, style.header + "\n".join(lines) + "\n")


def _some(rng: Random, values: Sequence[int], most: int, unsorted: float) -> list[int]:
    chosen = rng.sample(values, rng.randint(1, most))
    return chosen if rng.random() < unsorted else sorted(chosen)


def _rules(rng: Random, style: Style, number: int, *, only_two: bool) -> list[RuleNumbers]:
    others = [] if number in style.one_rule else _some(rng, THRESHOLDS, 4, style.unsorted)
    return [
        (first, chosen, rng.choice(FANOUTS), rng.choice(SEGSIZES))
        for first in (0, *others)
        for chosen in [_algorithm(rng, style, number, only_two=only_two)]
    ]


def _algorithm(rng: Random, style: Style, number: int, *, only_two: bool) -> int:
    highest = ALGORITHMS.get(number, 3)
    if rng.random() < style.unknown:
        return rng.choice((highest + 2, highest + 7, 100))
    two = {0: 6, 1: 5, 3: 5, 6: 5}.get(number)
    while True:
        chosen = 0 if rng.random() < 0.1 else rng.randint(1, highest)
        if chosen != two or only_two or rng.random() < style.two_processes_everywhere:
            return chosen


def _commented(rng: Random, text: str) -> str:
    return "# 3 rules -1\n" + "".join(
        f"{line}{rng.choice(('', ' # 7 numbers -3', '   #', '#x'))}\r\n"
        for line in text.splitlines()
    )


def _one_line(_: Random, text: str) -> str:
    return " ".join(text.split())


def _octal(rng: Random, text: str) -> str:
    spell = (str, str, lambda n: f"0{n:o}", lambda n: f"0x{n:x}", lambda n: f"+{n}")
    return "\n".join(
        " ".join(rng.choice(spell)(int(word)) for word in line.split())
        for line in text.splitlines()
    )


def _punctuated(rng: Random, text: str) -> str:
    glue = (" ", ", ", "\t", " ; ", " x ", " é ")
    return "\ufeff" + "\n".join(rng.choice(glue).join(line.split()) for line in text.splitlines())


def _trailing(rng: Random, text: str) -> str:
    return text + rng.choice(("7 1 0 1 0 6 0 0\n", "-4\n", "garbage {}\n", "99 99 99"))


def _fewer_counted(_: Random, text: str) -> str:
    first, rest = text.split("\n", 1)
    return f"{int(first) - 3}\n{rest}"


def _shifted(rng: Random, text: str) -> str:
    """Slip one more number into the middle of the file, or lose one."""
    words = text.split(" ")
    at = rng.randrange(len(words) // 4, len(words))
    words[at:at] = [str(rng.choice((0, 1, 2, 3)))]
    return " ".join(words)


def _cut(rng: Random, text: str) -> str:
    return text[: rng.randrange(len(text) // 3, len(text) - 6)]


def _first_not_zero(_: Random, text: str) -> str:
    lines = text.splitlines()
    (at, *_rest) = [
        at for at, line in enumerate(lines) if line.startswith("0 ") and line.count(" ") > 2
    ]
    lines[at] = "8" + lines[at][1:]
    return "\n".join(lines)


def _negative(rng: Random, text: str) -> str:
    lines = text.splitlines()
    at = rng.randrange(3, len(lines))
    return "\n".join([*lines[:at], f"-{lines[at]}", *lines[at + 1 :]])


def _too_many(_: Random, text: str) -> str:
    first, rest = text.split("\n", 1)
    return f"{int(first) + 1}\n{rest}"


def _unknown_collective(_: Random, text: str) -> str:
    first, _second, rest = text.split("\n", 2)
    return f"{first}\n22\n{rest}"


def _json(_: Random, __: str) -> str:
    return '{ "collectives": { "bcast": [ { "rules": [ { "alg": 5 } ] } ] } }\n'


TIDY = Style("tidy")
WITHOUT_TRAPS = Style("without traps", one_rule=(COLLECTIVES["gather"], COLLECTIVES["scatter"]))
"""Whatever the arguments of a call and of those that it is made of, all ranks choose the same."""
READ = (
    TIDY,
    Style("unsorted", unsorted=0.6),
    Style("duplicates", duplicate=1.0, unsorted=0.2),
    Style("ends programs", unknown=0.05, two_processes_everywhere=0.5),
    Style("comments and CRLF", respell=_commented),
    Style("one line", respell=_one_line),
    Style("octal and hexadecimal", respell=_octal),
    Style("punctuation and a byte order mark", respell=_punctuated),
    Style("trailing garbage", respell=_trailing),
    Style("too low a count", respell=_fewer_counted),
    Style("header 1", header="rule-file-version-1\n"),
    Style("header 2", header="rule-file-version-2\n"),
)
"""Files that releases read, whatever they read in them."""
DROPPED = (
    Style("shifted", respell=_shifted),
    Style("cut", respell=_cut),
    Style("first size not 0", respell=_first_not_zero),
    Style("a negative number", respell=_negative),
    Style("too high a count", respell=_too_many),
    Style("an unknown collective", respell=_unknown_collective),
    Style("JSON", respell=_json),
    Style("header 3", header="rule-file-version-3\n"),
    replace(TIDY, name="a header on the second line", header="\nrule-file-version-1\n"),
    replace(TIDY, name="empty", respell=lambda _, __: ""),
)
"""Files that releases hardly take as their author meant them, most not at all."""

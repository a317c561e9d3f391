"""Random files of Open MPI's parameters, which force algorithms and may name a rules file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from colltune.domain import Collective
from tests.integration.random_rules import ALGORITHMS, COLLECTIVES

NAMES = {"bcast": "Knomial", "allreduce": "RING", "alltoall": "pairwise", "gather": "binomial"}
PRIORITIES = ("0", "5", "10", "20", "30", "40", "75", "90", "96", "100", "130")
CHOICES = ("^self", "^tuned", "^adapt,sm", "tuned,basic,libnbc", "basic,libnbc,self,sm,adapt")
WRONG = ("99", "bogus", "-1")
_PREFIX = "OMPI_MCA_"

Parameters = list[tuple[str, str]]


@dataclass(frozen=True)
class Kind:
    """One kind of file, and the variable that tells the library to read it."""

    name: str
    variable: str
    render: Callable[[Random, Parameters], str]


def forced(rng: Random) -> Parameters:
    """Return parameters that force algorithms of some collectives, one of them wrongly."""
    found: Parameters = []
    collectives = rng.sample(list(Collective), 9)
    for collective in collectives[:-1]:
        stem = f"coll_tuned_{collective}_algorithm"
        number = rng.randint(0, ALGORITHMS[COLLECTIVES[collective]])
        found += [
            (stem, rng.choice((f"{number}", f"{number}", NAMES.get(collective, f"0{number}")))),
            (f"{stem}_segmentsize", rng.choice(("0", "1000", "4096", "4k"))),
            (f"{stem}_chain_fanout", rng.choice(("0", "2", "3", "40"))),
            (f"{stem}_tree_fanout", rng.choice(("5", "6"))),
            (f"{stem}_max_requests", rng.choice(("0", "2", "3"))),
        ]
    return [*found, (f"coll_tuned_{collectives[-1]}_algorithm", rng.choice(WRONG))]


def components(rng: Random) -> dict[str, str]:
    """Return variables that give components other priorities, or leave some out."""
    raised = rng.sample(("adapt", "basic", "self", "sm", "tuned"), rng.randint(1, 4))
    found = [(f"coll_{name}_priority", rng.choice(PRIORITIES)) for name in raised]
    if rng.random() < 0.4:
        found.append(("coll", rng.choice(CHOICES)))
    return variables(found)


def variables(parameters: Parameters) -> dict[str, str]:
    """Return the environment that sets parameters."""
    return {f"{_PREFIX}{name}": value for name, value in parameters}


def random_file(rng: Random, kind: Kind, rules: Path | None) -> str:
    """Return the text of a random file; `rules` is a rules file for it to name."""
    found = [*forced(rng), ("coll_tuned_use_dynamic_rules", rng.choice(("1", "true", "yes")))]
    if rules is not None:
        found.append(("coll_tuned_dynamic_rules_filename", str(rules)))
    rng.shuffle(found)
    algorithms = [(name, value) for name, value in found if name.endswith("_algorithm")]
    again = [(name, rng.choice(("0", "1", "2"))) for name, _ in rng.sample(algorithms, 2)]
    return kind.render(rng, [*found, *again])


def _assigned(rng: Random, parameters: Parameters) -> str:
    lines = ["# coll_tuned_bcast_algorithm = 1", "// another comment", ""]
    for name, value in parameters:
        indent, equals = rng.choice(("", "  ")), rng.choice((" = ", "=", "\t=  "))
        lines.append(f"{indent}{name}{equals}{value}")
        lines += rng.choice(([], [""], [f"#{name} = 2"], ["no_such_parameter = 7"]))
    return "\n".join(lines) + "\n"


def _options(rng: Random, parameters: Parameters) -> str:
    lines = ["# --mca coll_tuned_bcast_algorithm 1"]
    for name, value in parameters:
        spelled = rng.choice((value, value, f'"{value}"', f"'{value}'"))
        option = f"--mca {name} {spelled}"
        if rng.random() < 0.3 and not lines[-1].startswith("#"):
            lines[-1] += f"  {option}"
        else:
            lines.append(option)
    return "\n".join(lines) + "\n"


KINDS = (
    Kind("mca-params.conf", f"{_PREFIX}mca_base_param_files", _assigned),
    Kind("a file for --tune", f"{_PREFIX}mca_base_envar_file_prefix", _options),
)

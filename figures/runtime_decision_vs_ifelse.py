"""Nanoseconds per run-time decision of libcolltune, against the same table as compiled statements.

As in Fagg et al., EuroPVM/MPI 2006, sec. 6.1: broadcasts with 180,000 parameter sets, an average
depth of 5 comparisons, a dummy function instead of the algorithm, the same compiler flags.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from colltune.mpi import installation
from colltune.mpi.libcolltune import NATIVE
from figures.figure import Figure

_ROUNDS = 41
_FLAGS = ("-O2", "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-pthread", "-rdynamic")
_LIBRARIES = ("-ldl", "-lm", "-lrt")
_STEPS = {
    4: (0, 64, 4096, 65536, 1048576),
    8: (0, 32, 1024, 32768, 1048576),
    16: (0, 128, 2048, 32768, 524288),
    64: (0, 16, 512, 16384, 524288),
}
"""Message sizes at which the choice changes, for each communicator size."""


def run() -> Figure:
    """Return the decision by the compiled table over that by statements, medians in ns."""
    return _figure("runtime_decision_vs_ifelse", 1)


def run_rules() -> Figure:
    """Return the decision by the dynamic rule base over that by statements, medians in ns."""
    return _figure("rule_base_decision_vs_ifelse", 2)


def _figure(name: str, column: int, order: str = "sorted") -> Figure:
    rounds = _measured(order)
    ratio = statistics.median(times[column] / times[0] for times in rounds)
    ours, baseline = (statistics.median(times[k] for times in rounds) for k in (column, 0))
    return Figure(name, ratio, "ratio", ours, baseline)


def _measured(order: str) -> list[tuple[float, ...]]:
    mpi = installation.find()
    environment = {**os.environ, **mpi.launch_environment()}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program, table, rules = (folder / part for part in ("program", "table", "rules"))
        statements = folder / "ifelse.c"
        statements.write_text("".join(_statements()), encoding="utf-8")
        rules.write_text("".join(_rules()), encoding="utf-8")
        table.write_text(_sealed("".join(_table(mpi.library, mpi.release))), encoding="utf-8")
        driver = Path(__file__).with_name("runtime_decision.c")
        sources: list[str | Path] = [driver, statements, *sorted((NATIVE / "src").glob("*.c"))]
        headers = [f"-I{NATIVE / folder}" for folder in ("include", "src")]
        command = [mpi.mpicc, *_FLAGS, *headers, "-o", program, *sources, *_LIBRARIES]
        subprocess.run(command, check=True, env=environment)
        sizes = ",".join(map(str, _STEPS))
        done = subprocess.run(
            [program, rules, sizes, order, str(_ROUNDS)],
            check=True,
            capture_output=True,
            text=True,
            env=environment | {"COLLTUNE_TABLE": str(table)},
        )
    return [tuple(map(float, line.split())) for line in done.stdout.splitlines()]


def _ids() -> list[str]:
    n_steps = sum(len(steps) for steps in _STEPS.values())
    return [f"colltune.bcast.hierarchical:groups={2 + k}" for k in range(n_steps)]


def _table(library: str, release: str) -> Iterator[str]:
    yield f"colltune-table 1\nlibrary {library} {release}\nshape 16x4\n"
    for number, configuration in enumerate(_ids(), 1):
        yield f"configuration {number} {configuration}\n"
    number = 0
    for size, steps in _STEPS.items():
        yield f"rules bcast size {size}\n"
        for first_bytes in steps:
            number += 1
            yield f"{first_bytes} {number}\n"


def _statements() -> Iterator[str]:
    """Yield the same table as compiled statements, from small messages to large ones."""
    yield '#include "ct.h"\n\nstatic const ct_configuration_t *chosen[64];\n\n'
    yield "int find_configurations(void) {\n    ct_why_t why;\n"
    for number, configuration in enumerate(_ids()):
        yield f'    chosen[{number}] = ct_configuration("{configuration}", &why);\n'
        yield f"    if (!chosen[{number}]) return 1;\n"
    yield "    return 0;\n}\n\n"
    yield "const ct_configuration_t *by_statements(ct_comm_t *c, const ct_call_t *call);\n"
    yield "const ct_configuration_t *by_statements(ct_comm_t *c, const ct_call_t *call) {\n"
    yield "    size_t bytes = call->msize;\n"
    number = 0
    for size, steps in _STEPS.items():
        yield f"    if (c->size == {size}) {{\n"
        for next_bytes in steps[1:]:
            yield f"        if (bytes < {next_bytes}) return chosen[{number}];\n"
            number += 1
        yield f"        return chosen[{number}];\n    }}\n"
        number += 1
    yield "    return NULL;\n}\n"


def _rules() -> Iterator[str]:
    """Yield the same comparisons in the same order as rules."""
    yield "colltune-rules 1\n"
    for number, configuration in enumerate(_ids()):
        yield f"configuration c{number} {configuration}\n"
    number = 0
    sizes = list(_STEPS)
    for at, (size, steps) in enumerate(_STEPS.items()):
        name = f"size{size}" if at else "first"
        other = f"size{sizes[at + 1]}" if at + 1 < len(sizes) else "library"
        yield f"rule {name} size EQ {size} then step{number} else {other}\n"
        for next_bytes in steps[1:]:
            last = next_bytes == steps[-1]
            after = f"c{number + 1}" if last else f"step{number + 1}"
            yield f"rule step{number} msize LT {next_bytes} then c{number} else {after}\n"
            number += 1
        number += 1


def _sealed(body: str) -> str:
    checksum = 0xCBF29CE484222325
    for byte in body.encode():
        checksum = (checksum ^ byte) * 0x100000001B3 & ((1 << 64) - 1)
    return f"{body}end {checksum:016x}\n"

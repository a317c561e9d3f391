"""Proves which algorithm ran: a preloaded library logs the functions behind each MPI call.

Open MPI exports the functions that implement its algorithms and calls them through the procedure
linkage table, so that a preloaded library sees every one of them. It needs no prototypes: a stub in
assembler keeps all argument registers, has the name logged, and jumps on.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from colltune import process
from colltune.domain import INTERPOSED, Collective
from colltune.errors import say
from colltune.files.ownership import insist_preloadable, made_once
from colltune.mpi.installation import Installation

_HIT = Path(__file__).parent / "native" / "hit.c"
_TIMEOUT_S = 120.0
_COLLECTIVE = "|".join(sorted(Collective, key=len, reverse=True))
_TRACED = re.compile(
    rf"ompi_coll_base_(?:{_COLLECTIVE})_(?:intra_\w+|basic_linear|direct_messaging)"
    rf"|mca_coll_han_(?:{_COLLECTIVE})_\w+"
    rf"|mca_coll_basic_(?:{_COLLECTIVE})_\w*intra\w*"
    rf"|mca_coll_sm_(?:{_COLLECTIVE})_intra"
    rf"|MPI_(?:{_COLLECTIVE})",
    re.IGNORECASE,
)
# parts of algorithms, and han's dispatchers, which decide but do not run anything
_NOT_TRACED = re.compile(r"_generic|_dynamic|_decision|_inplace|_pof2")
_MARK = re.compile(r"\bMARK (?P<collective>[a-z_]+) (?P<comm_size>\d+) (?P<msize_bytes>\d+)\b")
_CHOICE = re.compile(r"\bCHOICE (?P<id>[\w.:=,-]+)")
_LINE = re.compile(r"\bTRACE (?P<symbol>\w+)(?P<words>(?: -?\d+)*)")

# all registers that arguments are handed on in, and those of chains and variadic calls
_KEPT = ("rdi", "rsi", "rdx", "rcx", "r8", "r9", "rax", "r10")
_PUSH = "\n".join(f"push {register}" for register in _KEPT)
_POP = "\n".join(f"pop {register}" for register in reversed(_KEPT))
_STUB = f""".globl {{name}}
.type {{name}}, @function
{{name}}:
endbr64
push rbp
mov rbp, rsp
{_PUSH}
mov edi, {{index}}
lea rsi, [rbp + 16]
call colltune_trace_hit@PLT
mov r11, rax
{_POP}
pop rbp
jmp r11
.size {{name}}, . - {{name}}
"""


class Observation(NamedTuple):
    """The function that ran first for a call; empty when none of the traced ones did.

    An algorithm of libcolltune's own stands there by its id.
    """

    collective: Collective
    comm_size: int
    msize_bytes: int
    symbol: str


class Function(NamedTuple):
    """A traced function; ``words`` are its arguments after the sixth, if they were asked for.

    Each is the lower half of a word as a signed number; more follow than it has arguments.
    """

    symbol: str
    words: tuple[int, ...] = ()


class MarkedCall(NamedTuple):
    """A call that the traced program marked, with the functions behind it in order.

    Before the functions stands the configuration that libcolltune says it chose, by its id, if it
    is one of its own or no function was traced.
    """

    collective: Collective
    comm_size: int
    msize_bytes: int
    functions: tuple[Function, ...]


def unavailable() -> str:
    """Return why calls cannot be traced on this machine; empty if they can."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return f"calls can be traced only on Linux on x86-64; this is {platform.machine()}"
    return ""


def build(installation: Installation, folder: Path) -> Path:
    """Return the tracer's shared library for `installation`, compiled in `folder` on first use."""
    if reason := unavailable():
        raise say("trace-unavailable", reason=reason)
    stubs = assembler(traced_symbols(_exported(installation.libmpi)))
    key = hashlib.sha256(
        f"{installation.compile_line}\n{stubs}\n{_HIT.read_text(encoding='utf-8')}".encode()
    ).hexdigest()[:16]

    def compiled(work: Path) -> Path:
        source, library = work / "stubs.s", work / "tracer.so"
        source.write_text(stubs, encoding="utf-8")
        outcome = process.run(
            [installation.mpicc, "-O1", "-fPIC", "-shared", "-o", library, source, _HIT, "-ldl"],
            timeout_s=_TIMEOUT_S,
            env=dict(os.environ) | installation.launch_environment(),
        )
        process.check(outcome, "compiling the call tracer")
        return library

    return made_once(folder, f"trace-{key}.so", compiled)


def launch_options(
    tracer: Path, *behind: Path, rank: int = 0, with_words: bool = False
) -> list[str]:
    """Return mpirun's options by which `rank` writes a trace to stderr, `with_words` or without.

    Libraries `behind` the tracer are preloaded after it.
    """
    preloaded = ":".join(str(insist_preloadable(each)) for each in (tracer, *behind))
    options = ["-x", f"LD_PRELOAD={preloaded}", "-x", f"COLLTUNE_TRACE_RANK={rank}"]
    return [*options, "-x", "COLLTUNE_TRACE_WORDS=1"] if with_words else options


def observed(trace_text: str) -> list[Observation]:
    """Return what ran first for each call of `marked`; further functions are parts or fallbacks."""
    found = ((call, [each.symbol for each in call.functions]) for call in marked(trace_text))
    return [Observation(*call[:3], symbols[0] if symbols else "") for call, symbols in found]


def marked(trace_text: str) -> list[MarkedCall]:
    """Return all that was traced of each call that the traced program marked, in order.

    The program prints ``MARK <collective> <comm_size> <msize_bytes>`` after a call, and before it
    ``CHOICE <id>`` where libcolltune chose; the functions traced since the last call of that
    collective, up to a call of another one, belong to it.
    """
    functions: dict[str, list[Function]] = {}
    current = choice = ""
    found = []
    for line in trace_text.splitlines():
        if mark := _MARK.search(line):
            collective = mark["collective"]
            if collective in list(Collective):
                ran = functions.pop(Collective(collective).mpi_name, [])
                if choice:
                    ran = _with_choice(choice, collective, ran)
                choice = ""
                sizes = int(mark["comm_size"]), int(mark["msize_bytes"])
                found.append(MarkedCall(Collective(collective), *sizes, tuple(ran)))
        elif told := _CHOICE.search(line):
            choice = told["id"]
        elif trace := _LINE.search(line):
            symbol = trace["symbol"]
            if symbol.startswith("MPI_"):
                current = symbol
                functions[current] = []
            elif current:
                words = tuple(map(int, trace["words"].split()))
                functions.setdefault(current, []).append(Function(symbol, words))
    return found


def _with_choice(choice: str, collective: str, ran: list[Function]) -> list[Function]:
    """Return what ran for a call that libcolltune decided on.

    A communicator that it makes at first for an algorithm of the library goes before that.
    """
    if choice.startswith(f"{INTERPOSED}."):
        return [Function(choice), *ran]
    own = [f"_{collective}_" in function.symbol for function in ran]
    return ran[own.index(True) :] if True in own else [Function(choice)]


def traced_symbols(exported: Sequence[str]) -> list[str]:
    """Return those of a library's exported functions that are worth tracing, sorted."""
    return sorted(
        {name for name in exported if _TRACED.fullmatch(name) and not _NOT_TRACED.search(name)}
    )


def assembler(symbols: Sequence[str]) -> str:
    """Return x86-64 assembler with one stub for each of `symbols`."""
    stubs = "".join(_STUB.format(name=name, index=at) for at, name in enumerate(symbols))
    texts = "".join(f'.Lname{at}: .string "{name}"\n' for at, name in enumerate(symbols))
    pointers = "".join(f".quad .Lname{at}\n" for at in range(len(symbols)))
    return (
        f".intel_syntax noprefix\n.text\n{stubs}"
        f".section .rodata\n{texts}"
        '.section .data.rel.ro, "aw"\n.globl colltune_trace_names\n'
        f"colltune_trace_names:\n{pointers}"
        f".bss\n.globl colltune_trace_targets\ncolltune_trace_targets: .zero {8 * len(symbols)}\n"
        '.section .note.GNU-stack, "", @progbits\n'
    )


def _exported(libmpi: Path) -> list[str]:
    nm = process.find("nm", "install the binutils")
    # from 6 on libmpi holds the interface only
    behind = sorted(libmpi.parent.glob("libopen_mpi.so*"))[:1]
    names = []
    for library in (libmpi, *behind):
        outcome = process.run([nm, "-D", "--defined-only", library], timeout_s=_TIMEOUT_S)
        listed = process.check(outcome, "listing symbols").stdout.splitlines()
        words = [line.split() for line in listed]
        names += [w[2].partition("@")[0] for w in words if len(w) == 3 and w[1] in "TW"]
    if not any(name.startswith("ompi_coll_base_") for name in names):
        raise say("trace-not-possible", libmpi=libmpi)
    return names

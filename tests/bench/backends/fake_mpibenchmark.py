"""Stands in for ReproMPI's mpibenchmark: FAKE says how it behaves, FAKE_NPROCS how many ranks."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

SIZES = {"MPI_BYTE": 1, "MPI_INT": 4}


def option(name: str, default: str = "") -> str:
    """Return the value of the option `name`."""
    for word in reversed(sys.argv[1:]):
        if word.startswith(f"--{name}="):
            return word.partition("=")[2]
    return default


def emit(text: str) -> None:
    """Append to the output file, as whole jobs do, or print."""
    path = option("output-file")
    if path:
        with Path(path).open("a") as stream:
            stream.write(text)
    else:
        print(text, end="", flush=True)


def refuse(text: str) -> None:
    """End as mpibenchmark does with an option that it refuses."""
    print(f"\nERROR: {text}\n", file=sys.stderr)
    sys.exit(1)


def jobs() -> Iterator[tuple[str, int, int]]:
    """Yield call, size and repetitions of every job."""
    if not option("input-file"):
        yield option("calls-list"), int(option("msizes-list")), int(option("nrep"))
        return
    for line in Path(option("input-file")).read_text().splitlines():
        call, size, nrep = line.split()
        yield call, int(size), int(nrep)


def header() -> None:
    """Print what the run was asked for, as it was understood."""
    datatype = "MPI_BYTE" if fake == "deaf" else option("datatype", "MPI_BYTE")
    facts = {
        "operation": option("operation", "MPI_BOR"),
        "datatype": datatype,
        "datatype_size_bytes": SIZES[datatype],
        "nprocs": "1" if fake == "singletons" else os.environ["FAKE_NPROCS"],
        "clocksync": "HCA3O" if clocks else "None",
        "procsync": option("proc-sync"),
        "runtime_type": option("runtime-type"),
        "reproMPIcommitSHA1": "abc",
        "bcast_runtime_s": os.environ.get("FAKE_BROADCAST_S", "0.0000010000"),
    }
    emit("".join(f"#@{name}={value}\n" for name, value in facts.items()))
    emit(f"{'test':>50} {'nrep':>10} {'count':>12}    runtime_sec \n")


def measure() -> None:
    """Write the rows of every job: 100, 1, 2, ... microseconds."""
    for number, (call, size, nrep) in enumerate(jobs()):
        if number == 1 and fake == "crash":
            os.kill(os.getpid(), 11)
        if number == 1 and fake == "hang":
            time.sleep(60)
        if (number == 1 and fake == "partial") or (clocks and fake == "nothing"):
            continue
        if clocks and fake == "narrow" and not measures_network and not option("bcast-mult"):
            continue
        if clocks and fake == "lossy" and not measures_network:
            continue
        count = size // SIZES[option("datatype", "MPI_BYTE")]
        times = (100e-6 if i == 0 else i * 1e-6 for i in range(nrep))
        if call == "Send_Recv":
            times = (float(os.environ.get("FAKE_ROUND_TRIP_S", "1e-7")) for _ in range(nrep))
        emit("".join(f"{call:>50} {i:>10} {count:>12} {t:.10f}\n" for i, t in enumerate(times)))


fake = os.environ.get("FAKE", "good")
clocks = option("proc-sync") == "roundtime" and not option("rt-barrier-count")
measures_network = bool(option("pingpong-ranks"))
probing = measures_network or not option("input-file")
if fake == "stranger":
    print("usage: stranger FILE")
    sys.exit(2)
if fake == "broken launcher":
    print("srun: error: Unable to allocate resources", file=sys.stderr)
    sys.exit(1)
if fake == "symbols":
    print("mpibenchmark: symbol lookup error: libmpi_cxx.so.40: undefined", file=sys.stderr)
    sys.exit(127)
if fake == "no library":
    print("mpibenchmark: error while loading shared libraries: libmpits.so", file=sys.stderr)
    sys.exit(127)
print("#Command-Line Arguments: mpibenchmark", *sys.argv[1:], flush=True)
if fake == "untimed" and option("proc-sync") == "roundtime":
    refuse("No process synchronization module defined")
if not probing and fake == "not begun":
    sys.exit(1)
if not probing and fake == "unwritable":
    refuse("Cannot open output file")
if measures_network and fake == "by node":
    print(
        "WARNING: The two ping-pong ranks (0, 2) are running on the same node (a)", file=sys.stderr
    )
if option("output-file"):
    Path(option("output-file")).write_text("")
if not probing and fake == "full disk":
    sys.exit(0)
header()
if not probing and fake == "early crash":
    os.kill(os.getpid(), 11)
measure()
emit("# Benchmark started at Sat Nov 21 12:00:00 2026\n# Execution time: 0s\n")

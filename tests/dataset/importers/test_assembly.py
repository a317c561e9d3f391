"""What the user tells beside a file, and what of it is refused."""

from __future__ import annotations

from pathlib import Path

from colltune.dataset.importers import Imported
from colltune.domain import RunStatus
from colltune.errors import DataError
from tests.dataset.importers.samples import CONTEXT, OSU, REPROMPI, SHAPE, Names, loaded, request
from tests.refusals import refused

TOLD = CONTEXT | SHAPE
REDUCE = OSU.replace("Broadcast", "Reduce")


def _refused(
    folder: Path, text: str, settings: dict[str, str], code: str, **changes: object
) -> None:
    with refused(code, DataError):
        loaded("osu", text, folder, request(settings, **changes))


def _of(read: Imported, name: str) -> list[object]:
    return list(read.dataset.frame[name])


def test_a_configuration_that_is_told_is_that_of_all_rows(tmp_path: Path) -> None:
    """--set configuration names algorithm and parameters, and the library where it is not told."""
    settings = {k: v for k, v in TOLD.items() if k != "library"}
    settings["configuration"] = "openmpi.bcast.chain:fanout=4,segsize=65536"
    read = loaded("osu", OSU, tmp_path, request(settings))
    assert _of(read, "algorithm") == ["chain"] * 2
    assert _of(read, "parameters") == ["fanout=4,segsize=65536"] * 2
    assert read.dataset.context.library == "openmpi"


def test_a_configuration_of_something_else_is_refused(tmp_path: Path) -> None:
    """Of another library, of another collective than the file's, or no id at all."""
    wrong = TOLD | {"configuration": "mpich.bcast.binomial"}
    _refused(tmp_path, OSU, wrong, "settings-contradict library=openmpi")
    other = TOLD | {"configuration": "openmpi.reduce.chain"}
    _refused(tmp_path, OSU, other, "configuration-does-not-fit")
    _refused(
        tmp_path,
        REDUCE + OSU,
        other,
        "configuration-does-not-fit configuration=openmpi.reduce.chain",
    )
    kept = loaded("osu", REDUCE + OSU, tmp_path, request(other, where={"collective": "reduce"}))
    assert _of(kept, "collective") == ["reduce"] * 2
    _refused(tmp_path, OSU, TOLD | {"configuration": "chain"}, "malformed value=chain")


def test_a_configuration_that_would_not_have_run_is_marked(tmp_path: Path) -> None:
    """Where the library runs another algorithm instead, the time is not that of the one told."""
    settings = TOLD | {"configuration": "openmpi.bcast.split"}
    read = loaded("osu", OSU, tmp_path, request(settings, algorithms=Names(refused="split")))
    assert _of(read, "status") == [RunStatus.NOT_APPLICABLE] * 2
    assert read.dataset.frame["time_s"].isna().all()
    assert read.remarks == (
        "openmpi.bcast.split is not_applicable: the library runs another algorithm: it is refused"
        " (2 times)",
    )


def test_what_is_missing_or_unknown_is_named(tmp_path: Path) -> None:
    """Context, shape and option names are checked, each with the mend."""
    _refused(tmp_path, OSU, {"library": "openmpi"} | SHAPE, "context-not-said")
    _refused(tmp_path, OSU, TOLD | {"machine": " "}, "context-not-said")
    _refused(tmp_path, OSU, TOLD | {"nprocs": "8"}, "unknown name=nprocs")
    for value in ("0", "-4", "4.5", "four", ""):
        _refused(tmp_path, OSU, TOLD | {"nodes": value}, f"not-whole value={value}")


def test_rows_are_kept_by_what_they_are(tmp_path: Path) -> None:
    """--where keeps rows; a name that is none, or a value that never occurs, is refused."""
    read = loaded("osu", OSU, tmp_path, request(TOLD, where={"msize_bytes": "8"}))
    assert _of(read, "msize_bytes") == [8]
    _refused(tmp_path, OSU, TOLD, "unknown name=color", where={"color": "red"})
    _refused(tmp_path, OSU, TOLD, "no-row-has value=scan", where={"collective": "scan"})


def test_repeated_runs_are_launches_of_their_own(tmp_path: Path) -> None:
    """A cell that comes again belongs to a further launch, named after the file or as told."""
    read = loaded("reprompi", REPROMPI + REPROMPI, tmp_path, request(TOLD))
    assert _of(read, "launch") == ["file.txt", "file.txt", "file.txt/2", "file.txt/2"]
    told = loaded("reprompi", REPROMPI + REPROMPI, tmp_path, request(TOLD, launch="job7"))
    assert _of(told, "launch") == ["job7", "job7", "job7/2", "job7/2"]


def test_datatypes_of_one_collective_are_not_mixed(tmp_path: Path) -> None:
    """Two runs of a collective with different datatypes are refused, with their lines."""
    other = REPROMPI.replace("MPI_BYTE", "MPI_INT").replace("size_bytes=1", "size_bytes=4")
    with refused("not-comparable", DataError, one="MPI_BYTE"):
        loaded("reprompi", REPROMPI + other, tmp_path)


def test_runs_on_other_processes_than_told_are_refused(tmp_path: Path) -> None:
    """What the file says of its processes must agree with nodes times ppn."""
    other = REPROMPI.replace("nprocs=8", "nprocs=6")
    with refused("contradicts-set", DataError, found="6 processes"):
        loaded("reprompi", other, tmp_path)
    read = loaded("reprompi", other, tmp_path, request(CONTEXT | {"ppn": "3"}))
    assert [str(shape) for shape in read.dataset.shapes()] == ["2x3"]


def test_times_below_the_printed_resolution_are_left_out(tmp_path: Path) -> None:
    """0.00 us is no measurement; where nothing else is there, the file is refused with it."""
    fast = OSU.replace("3.00        1000", "0.00        1000")
    read = loaded("osu", fast, tmp_path)
    assert _of(read, "msize_bytes") == [1024]
    assert "a time of 0" in read.remarks[0]
    slow = fast.replace("5.00         500", "0.00         500")
    _refused(tmp_path, slow, TOLD, "no-usable-measurements")

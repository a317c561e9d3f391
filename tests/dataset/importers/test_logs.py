"""Logs as people keep them, with invented numbers: each is read exactly, or refused truthfully."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from colltune.dataset.importers import ImportRequest
from colltune.dataset.importers.importing import ImportedFiles, add_to, import_files
from colltune.errors import DataError, LibraryError
from colltune.mpi.known_algorithms import KnownAlgorithms
from tests.dataset.importers.samples import CONTEXT, IMB, MPIBENCH, OSU, REPROMPI, request
from tests.refusals import refused

SHAPE = {"nodes": "4", "ppn": "2"}
RESET = "\x1b[0m"
TAGGED = {
    "mpirun --tag-output of Open MPI 4": "[1,0]<stdout>:",
    "prterun --tag-output": "[prterun-node01-4711@1,0]<stdout>: ",
    "mpirun --timestamp-output": "Sat Nov 28 01:41:32 2026<stdout>:",
    "both of Open MPI 4": "Sat Nov 28 01:41:32 2026[1,0]<stdout>:",
    "srun -l": "0: ",
    "srun -l of many tasks": "   0: ",
    "mpiexec -prepend-rank": "[0] ",
    "pdsh": "node017: ",
    "ts": "Nov 28 01:41:32 ",
    "ts -s": "00:00:05 ",
    "a CI's log": "2026-11-28T01:41:32.1234567Z ",
    "a logger": "[2026-11-28 01:41:32,123] ",
    "dmesg": "[   12.345678] ",
    "syslog with a host": "Nov 28 01:41:32 node01: ",
    "a quoted mail": "> ",
    "a quoted code block": "    ",
    "a quoted reply with a tag": "> [1,0]<stdout>:",
    "a bar": "| ",
    "a tab": "\t",
}


def _read(folder: Path, content: str | bytes, name: str = "run.out", **told: str) -> ImportedFiles:
    file = folder / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return import_files([file], request(CONTEXT | SHAPE | told), None)


def _times_us(imported: ImportedFiles) -> list[float]:
    return [round(time_s * 1e6, 3) for time_s in imported.dataset.frame["time_s"]]


def _prefixed(text: str, prefix: str) -> str:
    return "".join(prefix + line for line in text.splitlines(keepends=True))


@pytest.mark.parametrize("program", [OSU, IMB, REPROMPI, MPIBENCH])
@pytest.mark.parametrize("kind", TAGGED)
def test_prefixes_are_taken_off(tmp_path: Path, program: str, kind: str) -> None:
    """What launchers, clocks and mails put before every line changes nothing that is read."""
    plain = _read(tmp_path, program)
    tagged = _read(tmp_path, _prefixed(program, TAGGED[kind]))
    assert tagged.format == plain.format
    assert tagged.dataset.frame.equals(plain.dataset.frame)


def test_lines_without_the_prefix_may_stand_between(tmp_path: Path) -> None:
    """The shell's own lines, and those of other processes, carry none or another one."""
    tagged = _prefixed(OSU, "[1,0]<stdout>:")
    text = "#!/bin/bash\n+ mpirun osu_bcast -f\n" + tagged + "[1,3]<stderr>:warning, slow\ndone\n"
    assert _times_us(_read(tmp_path, text)) == [3.0, 5.0]


def test_processes_that_ran_alone_are_refused(tmp_path: Path) -> None:
    """Each process printing the title is the sign of another library's launcher."""
    text = _prefixed(OSU, "[1,0]<stdout>:") + _prefixed(OSU, "[1,1]<stdout>:")
    with refused("each-alone", DataError, number=9):
        _read(tmp_path, text)


def test_colours_and_other_encodings_are_read(tmp_path: Path) -> None:
    """Terminals colour lines; PowerShell writes UTF-16; Windows ends lines in two characters."""
    coloured = "".join(f"\x1b[1;32m{line}{RESET}\n" for line in OSU.splitlines())
    contents: tuple[str | bytes, ...] = (
        coloured,
        OSU.encode("utf-16"),
        "\ufeff" + OSU,
        OSU.replace("\n", "\r\n"),
        _prefixed(OSU.replace("\n", "\r\n"), "0: "),
    )
    for number, content in enumerate(contents):
        assert _times_us(_read(tmp_path, content)) == [3.0, 5.0], number


def test_packed_files_are_read_and_archives_are_not(tmp_path: Path) -> None:
    """By their first bytes; an archive holds several files, which may differ in everything."""
    plain = OSU.encode()
    zstd = pa.Codec("zstd").compress(plain, asbytes=True)
    packed = {"gz": gzip.compress(plain), "bz2": bz2.compress(plain), "xz": lzma.compress(plain)}
    for ending, content in (packed | {"zst": zstd}).items():
        found = _read(tmp_path, content, f"run.out.{ending}")
        assert _times_us(found) == [3.0, 5.0], ending
        assert set(found.dataset.frame["launch"]) == {"run.out"}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in ("n2/a.out", "n8/a.out"):
            member = tarfile.TarInfo(name)
            member.size = len(plain)
            archive.addfile(member, io.BytesIO(plain))
    tar = buffer.getvalue()
    for name, content in (("a.tar", tar), ("a.tar.gz", gzip.compress(tar)), ("a.csv", tar)):
        with refused("not-read", DataError):
            _read(tmp_path, content, name)


@pytest.mark.parametrize(
    "title",
    [
        "Intel(R) MPI Benchmarks 2019 Update 6, MPI-1 part",
        "Intel (R) MPI Benchmarks 2018 Update 1, MPI-1 part",
        "Intel (R) MPI Benchmarks 4.1 Update 1, MPI-1 part",
        "Intel (R) MPI Benchmark Suite V3.2.4, MPI-1 part",
        "PALLAS MPI Benchmark Suite V2.2, MPI-1 part",
    ],
)
def test_all_ages_of_imb_are_known(tmp_path: Path, title: str) -> None:
    """From 2019 Update 1 on the sizes of Reduce_scatter are blocks, before whole buffers."""
    text = IMB.replace("Intel(R) MPI Benchmarks 2021.11, MPI-1 part", title)
    found = _read(tmp_path, text.replace("Benchmarking Bcast", "Benchmarking Reduce_scatter"))
    sizes = found.dataset.frame["msize_bytes"].tolist()
    assert sizes == ([64, 8192] if "2019" in title else [8, 1024])


def test_a_second_run_of_imb_that_broke_off_is_told(tmp_path: Path) -> None:
    """Whichever run it was, by its line; a row that was cut there is left out."""
    head, _, _ = IMB.partition("         1024")
    broken = head + "         1024          500\nmpirun noticed that process rank 3 exited\n"
    first = _read(tmp_path, broken + IMB)
    assert len(first.dataset) == 3
    assert [r for r in first.remarks if "incomplete" in r]
    assert [r for r in first.remarks if "did not finish" in r]
    second = _read(tmp_path, IMB + broken)
    assert [r for r in second.remarks if "the run that begins on line 2" in r]


OSU_TITLE = "# OSU MPI{} Allreduce Latency Test v7.3\n# Datatype: {}.\n# Size  Max Latency(us)\n"


def _osu(time_us: float, device: str = "", datatype: str = "MPI_INT") -> str:
    return OSU_TITLE.format(device, datatype) + f"8  {time_us}\n1024  {2 * time_us}\n"


def _imb(options: str, part: str = "MPI-1 part") -> str:
    calling = f"# Calling sequence was:\n\n# ./IMB-MPI1 {options}\n\n# Minimum message length"
    return IMB.replace("# MPI_Datatype  ", f"{calling}\n\n# MPI_Datatype  ").replace(
        "MPI-1 part", part
    )


DIFFERENT = {
    "memory": (_osu(3.0), _osu(3.1, "-CUDA")),
    "memory of two devices": (_osu(3.0, "-ROCM"), _osu(3.1, "-CUDA")),
    "datatype": (_osu(3.0), _osu(3.1, datatype="MPI_FLOAT")),
    "operation": (
        REPROMPI.replace("MPI_Bcast", "MPI_Reduce"),
        REPROMPI.replace("MPI_Bcast", "MPI_Reduce").replace("MPI_BOR", "MPI_SUM"),
    ),
    "cache": (_imb("Bcast"), _imb("-npmin 8 -off_cache -1 Bcast")),
    "root": (_imb("-root_shift off Bcast"), _imb("-root_shift 1 Bcast")),
    "sync": (_imb("-sync 0 Bcast"), _imb("-sync 1 Bcast")),
    "sync of ReproMPI": (REPROMPI, REPROMPI.replace("=MPI_Barrier", "=dissemination_barrier")),
    "memory of IMB": (_imb("Bcast"), _imb("-mem_alloc_type device Bcast")),
    "memory of IMB's GPU part": (_imb("Bcast"), _imb("Bcast", "MPI-1-GPU part")),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_what_is_measured_differently_is_kept_apart(tmp_path: Path, what: str) -> None:
    """In a file, in a call and in a dataset; both places are named, and --where keeps one."""
    one, other = DIFFERENT[what]
    name = what.partition(" ")[0]
    a, b = tmp_path / "a.out", tmp_path / "b.out"
    a.write_text(one)
    b.write_text(other)
    told = request(CONTEXT | SHAPE)
    if "IMB" in what or name not in ("cache", "root", "sync"):
        with refused("not-comparable", DataError):
            _read(tmp_path, one + other)
    with refused("methods-differ", DataError) as caught:
        import_files([a, b], told, None)
    assert "a.out, line" in str(caught.value)
    data = tmp_path / "data"
    add_to(data, import_files([a], told, None))
    with refused("methods-differ", DataError) as caught:
        add_to(data, import_files([b], told, None))
    assert "(a.out)" in str(caught.value)
    assert len(list(data.glob("*.parquet"))) == 1


def test_one_memory_of_a_mixed_file_is_kept(tmp_path: Path) -> None:
    """--where memory=host takes the tables in host memory."""
    file = tmp_path / "mixed.out"
    file.write_text(_osu(3.0) + _osu(30.0, "-CUDA"))
    for memory, expected in (("host", [3.0, 6.0]), ("CUDA", [30.0, 60.0])):
        asked = request(CONTEXT | SHAPE, where={"memory": memory})
        assert _times_us(import_files([file], asked, None)) == expected


def test_a_condition_can_be_told(tmp_path: Path) -> None:
    """Where a file does not tell it, it counts as if it did; where it does, it must agree."""
    old = OSU.replace("# Datatype: MPI_CHAR.\n", "")
    add_to(tmp_path / "data", _read(tmp_path, old, datatype="MPI_CHAR"))
    with refused("methods-differ", DataError, name="datatype", value="MPI_BYTE", other="MPI_CHAR"):
        add_to(tmp_path / "data", _read(tmp_path, old + "\n", "b.out", datatype="MPI_BYTE"))
    with refused("contradicts-set", DataError, told="memory=CUDA"):
        _read(tmp_path, OSU, memory="CUDA")


@pytest.mark.parametrize("benchmark", ["Scatterv", "Alltoallw", "Iallreduce", "Multi-Bcast"])
def test_the_reason_of_leaving_out_is_true(tmp_path: Path, benchmark: str) -> None:
    """A collective that is not tuned is not called no collective."""
    found = _read(tmp_path, IMB + IMB.replace("Benchmarking Bcast", f"Benchmarking {benchmark}"))
    (remark,) = (r for r in found.remarks if benchmark in r)
    assert "no-usable-measurements" not in remark


def test_a_log_with_commas_is_no_csv(tmp_path: Path) -> None:
    """The reason of a refusal is the format, not the columns."""
    with refused("unknown-format", DataError):
        _read(tmp_path, "Lmod is loading openmpi, please wait\nsomething, else, happened\n")


TOLD_CSV = CONTEXT | {"collective": "allreduce"}


def _csv(
    folder: Path, text: str, where: dict[str, str] | None = None, **told: str
) -> ImportedFiles:
    file = folder / "study.csv"
    file.write_text(text)
    unit = told.pop("time_unit", "")
    settings = {k: v for k, v in (TOLD_CSV | told).items() if v}
    algorithms = KnownAlgorithms(settings.get("library_version", ""))
    asked = ImportRequest(settings, algorithms, where=where or {}, time_unit=unit)
    return import_files([file], asked, None)


HEAD = "Algorithm,Nodes,PPN,MessageSize,Latency(us)\n"


def test_usual_names_of_columns_are_understood(tmp_path: Path) -> None:
    """Capitals, blanks and units do not matter; what is taken for what is told."""
    found = _csv(tmp_path, HEAD + "default,2,16,8,7.5\n")
    assert _times_us(found) == [7.5]
    assert [r for r in found.remarks if "'PPN' for ppn" in r]
    other = "Coll,algo,num_procs,n_nodes,Message Size (B),avg_latency_us\n"
    found = _csv(
        tmp_path,
        other.replace(" (B)", "") + "MPI_Allreduce,Ring,8,2,64,1.5\n",
        collective="",
    )
    assert [str(s) for s in found.dataset.shapes()] == ["2x4"]
    assert _times_us(found) == [1.5]


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("1", "basic_linear"),
        ("5", "segmented_ring"),
        ("Basic Linear", "basic_linear"),
        ("Recursive-Doubling", "recursive_doubling"),
        ("RING", "ring"),
        ("algorithm 4", "ring"),
        ("0", "default"),
        ("Default", "default"),
    ],
)
def test_algorithms_are_those_of_the_release(tmp_path: Path, word: str, name: str) -> None:
    """Numbers, capitals and blanks lead to the catalogue's name."""
    frame = _csv(tmp_path, HEAD + f"{word},2,16,8,7.5\n").dataset.frame
    assert frame["algorithm"].tolist() == [name]


def test_unknown_algorithms_are_refused_with_the_known_ones(tmp_path: Path) -> None:
    """So that no measurement is of what no file can choose."""
    with refused("no-algorithm", LibraryError):
        _csv(tmp_path, HEAD + "fancy,2,16,8,7.5\n")
    with refused("no-algorithm-number", LibraryError, number=99):
        _csv(tmp_path, HEAD + "99,2,16,8,7.5\n")


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("OpenMPI", "openmpi"),
        ("Open MPI", "openmpi"),
        ("MPICH", "mpich"),
        ("Intel MPI", "intelmpi"),
    ],
)
def test_libraries_and_releases_may_be_spelled(tmp_path: Path, word: str, name: str) -> None:
    """As their projects spell them; a ``v`` before the release is none of it."""
    text = "library,version," + HEAD + f"{word},v4.1.6,default,2,16,8,7.5\n"
    if name == "intelmpi":
        text = text.replace("v4.1.6", "2021.10")
    context = _csv(tmp_path, text, library="", library_version="").dataset.context
    assert context.library == name
    assert not context.library_version.startswith("v")


def test_processes_that_do_not_fill_nodes_are_refused_with_their_number(tmp_path: Path) -> None:
    """--where keeps the even ones; one of nodes and ppn is enough for them."""
    text = "Algorithm,Processes,MessageSize,Latency(us)\n"
    text += "default,8,64,5.0\ndefault,9,64,5.5\ndefault,10,64,6.0\n"
    message = "uneven-rows line=3"
    with refused(message, DataError):
        _csv(tmp_path, text, nodes="2")
    kept = _csv(tmp_path, text, {"nprocs": "8,10"}, nodes="2")
    assert [str(s) for s in kept.dataset.shapes()] == ["2x4", "2x5"]
    with refused("uneven-rows", DataError, those="3 rows of 3"):
        _csv(tmp_path, text, nodes="2", ppn="3")


def test_repeated_rows_are_launches(tmp_path: Path) -> None:
    """Of the same cell; the same rows a second time are not."""
    row = "ring,2,16,8,{}\n"
    found = _csv(tmp_path, HEAD + "".join(row.format(t) for t in (7.5, 7.6, 7.4)))
    launches = found.dataset.frame["launch"].tolist()
    assert launches == ["study.csv", "study.csv/2", "study.csv/3"]
    with refused("duplicate-cells", DataError):
        _csv(tmp_path, HEAD + 2 * row.format(7.5))


def test_units_of_times_are_taken_from_names_or_contradicted(tmp_path: Path) -> None:
    """And a time that cannot be is asked about."""
    row = "ring,2,16,8,{}\n"
    for name in ("time_us", "Time [usec]", "latency (µs)", "Median_microseconds"):
        found = _csv(tmp_path, HEAD.replace("Latency(us)", name) + row.format(7.5))
        assert _times_us(found) == [7.5], name
    with refused("time-units-contradict", DataError):
        _csv(tmp_path, HEAD + row.format(7.5), time_unit="ms")
    bare = HEAD.replace("(us)", "")
    with refused("times-very-long", DataError, text="5 s for 8 bytes"):
        _csv(tmp_path, bare + row.format(5))
    assert _times_us(_csv(tmp_path, bare + row.format(5), time_unit="s")) == [5e6]
    with refused("times-too-short", DataError):
        _csv(tmp_path, bare + row.format("5e-6"), time_unit="us")


def test_columns_that_tell_conditions_are_heard(tmp_path: Path) -> None:
    """Two kinds of memory in one table are refused, or one is kept."""
    text = "memory," + HEAD + "host,ring,2,16,8,7.5\nCUDA,ring,2,16,8,30.5\n"
    with refused("not-comparable", DataError, name="memory"):
        _csv(tmp_path, text)
    assert _times_us(_csv(tmp_path, text, {"memory": "CUDA"})) == [30.5]


def _osu_table(factor: float = 1.0) -> str:
    rows = "".join(f"{4**k} {factor * (4 + k):.2f}\n" for k in range(2, 8))
    return f"\n# OSU MPI Allreduce Latency Test v5.9\n# Size  Max Latency(us)\n{rows}"


def _log(folder: Path, text: str, name: str = "slurm-1.out", **asked: object) -> ImportedFiles:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    told = dict(CONTEXT) | dict(asked.pop("told", {}))  # type: ignore[call-overload]
    request_ = replace(ImportRequest(told, KnownAlgorithms("4.1.6")), **asked)  # type: ignore[arg-type]
    return import_files([file], request_, None)


def _shapes(imported: ImportedFiles) -> list[str]:
    return [str(shape) for shape in imported.dataset.shapes()]


COMMANDS = {
    "mpirun -np 64 --map-by ppr:32:node osu_allreduce -f": "2x32",
    "mpirun -n 64 -npernode 16 ./osu_allreduce": "4x16",
    "mpirun -np 64 -N 8 ./osu_allreduce": "8x8",
    "mpiexec.hydra -n 64 -ppn 16 ./osu_allreduce": "4x16",
    "mpiexec -n 64 -perhost 32 ./osu_allreduce": "2x32",
    "srun -N 4 -n 64 ./osu_allreduce": "4x16",
    "srun -N4 -n64 ./osu_allreduce": "4x16",
    "srun --nodes=4 --ntasks-per-node=16 ./osu_allreduce": "4x16",
    "srun --mpi=pmix --ntasks=64 --ntasks-per-node 16 osu_allreduce": "4x16",
    "aprun -n 64 -N 16 ./osu_allreduce": "4x16",
    "/opt/openmpi/bin/mpirun --np 64 --map-by ppr:32:node:pe=2 osu_allreduce": "2x32",
    "time flux run -N4 --tasks-per-node=16 -o cpu-affinity=per-task osu_allreduce": "4x16",
    "ssh k0001 mpirun --mca pml ucx -np 64 -pernode -hostfile hosts osu_allreduce": "64x1",
    "time mpirun --bind-to core -np 64 -npernode 32 osu_allreduce": "2x32",
    "jsrun -n 4 -a 16 -r 1 -c 16 ./osu_allreduce": "4x16",
    "jsrun -n8 -a8 -r2 ./osu_allreduce": "4x16",
    "jsrun --nrs 64 --tasks_per_rs 1 --rs_per_host 32 osu_allreduce": "2x32",
    "poe osu_allreduce -procs 64 -tasks_per_node 16": "4x16",
    "ibrun -n 64 --ntasks-per-node=16 ./osu_allreduce": "4x16",
    "flux run -N 4 -n 64 ./osu_allreduce": "4x16",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_tell_shapes_where_asked(tmp_path: Path, command: str) -> None:
    """Launchers' options of processes and nodes; what --set says otherwise is refused."""
    for mark in ("+ ", "$ ", "", "# "):
        text = f"{mark}{command}\n{_osu_table()}"
        assert _shapes(_log(tmp_path, text, from_commands=True)) == [COMMANDS[command]]
    with refused("contradicts-set", DataError, told="nodes=1 and ppn=32"):
        _log(tmp_path, text, told={"nodes": "1", "ppn": "32"})
    assert _shapes(_log(tmp_path, text, told={"ppn": COMMANDS[command].partition("x")[2]}))


def test_commands_may_take_several_lines(tmp_path: Path) -> None:
    """A backslash goes on in the next line; a command without counts takes over from none."""
    text = (
        "$ mpirun -np 64 \\\n>   --map-by ppr:32:node \\\n    ./osu_allreduce -f\n" + _osu_table()
    )
    assert _shapes(_log(tmp_path, text, from_commands=True)) == ["2x32"]
    with refused("layout-not-said", DataError):
        _log(tmp_path, f"{text}+ ibrun ./osu_allreduce -f\n{_osu_table()}", from_commands=True)


def test_a_loop_over_processes_is_no_three_launches(tmp_path: Path) -> None:
    """Each table has the shape of its command, or of the only one that fits."""
    text = "".join(
        f"+ mpirun -np {n} --map-by ppr:32:node osu_allreduce -f\n{_osu_table(n / 32)}"
        for n in (32, 64, 128)
    )
    with refused("contradicts-set", DataError):
        _log(tmp_path, text, told={"nodes": "1", "ppn": "32"})
    assert _shapes(_log(tmp_path, text, from_commands=True)) == ["1x32", "2x32", "4x32"]
    assert _shapes(_log(tmp_path, text, told={"ppn": "32"})) == ["1x32", "2x32", "4x32"]
    told = {"nodes": "1", "ppn": "32"}
    assert _shapes(_log(tmp_path, text, told=told, where={"nprocs": "32"})) == ["1x32"]


def test_a_listing_of_commands_tells_nothing(tmp_path: Path) -> None:
    """A script that is printed before its output does not tell which command made a table."""
    text = "srun -N 2 -n 64 osu_allreduce\nsrun -N 4 -n 64 osu_allreduce\n" + _osu_table()
    with refused("layout-not-said", DataError):
        _log(tmp_path, text, from_commands=True)


def test_tables_without_a_collective_stand_between_commands(tmp_path: Path) -> None:
    """A command is that of its own table, also where the tables before are of no collective."""
    others = "mpirun -np 2 osu_latency\n# OSU MPI Latency Test v5.9\n# Size  Latency (us)\n8 1.00\n"
    own = f"mpirun -np 64 --map-by ppr:32:node osu_allreduce\n{_osu_table()}"
    for text in (others + own, others * 3 + own, own + others, others + own + others + own):
        assert _shapes(_log(tmp_path, text, from_commands=True)) == ["2x32"]


CHOICES = {
    "mpirun -np 8 --mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_allreduce_algorithm 4 x": (
        "ring"
    ),
    "OMPI_MCA_coll_tuned_use_dynamic_rules=1 OMPI_MCA_coll_tuned_allreduce_algorithm=3 mpirun "
    "-np 8 x": "recursive_doubling",
    "mpirun -np 8 -x OMPI_MCA_coll_tuned_use_dynamic_rules=true "
    "-x OMPI_MCA_coll_tuned_allreduce_algorithm=1 x": "basic_linear",
    "export OMPI_MCA_coll_tuned_use_dynamic_rules=1\n+ export "
    "OMPI_MCA_coll_tuned_allreduce_algorithm=6\n+ mpirun -np 8 x": "rabenseifner",
    "mpirun -np 8 --mca coll_tuned_allreduce_algorithm 4 x": "default",
    "mpirun -np 8 x": "default",
}


@pytest.mark.parametrize("command", CHOICES)
def test_commands_tell_algorithms_where_asked(tmp_path: Path, command: str) -> None:
    """What they choose serves, or refuses what is told; without dynamic rules nothing is chosen."""
    text, name = f"+ {command}\n{_osu_table()}", CHOICES[command]
    told = {"nodes": "4", "ppn": "2"}
    found = _log(tmp_path, text, told=told, from_commands=True)
    assert set(found.dataset.frame["algorithm"]) == {name}
    if name != "default":
        with refused("command-chooses", DataError):
            _log(tmp_path, text, told=told)
        other = {"configuration": "openmpi.allreduce.nonoverlapping", "nodes": "4", "ppn": "2"}
        with refused("command-chooses", DataError):
            _log(tmp_path, text, told=other)


@pytest.mark.parametrize(
    "line",
    [
        "mpirun (Open MPI) 5.0.3",
        "# Open MPI v5.0.3",
        "Open MPI: 4.0.7",
        "MPICH Version:\t4.1.2",
        "Intel(R) MPI Library for Linux* OS, Version 2021.10 Build 20230619",
    ],
)
def test_another_release_than_told_is_refused(tmp_path: Path, line: str) -> None:
    """Where a line of the log says which one ran; the same one is welcome."""
    told = {"nodes": "4", "ppn": "2"}
    with refused("contradicts-set", DataError, told="openmpi 4.1.6"):
        _log(tmp_path, f"{line}\n{_osu_table()}", told=told)
    assert len(_log(tmp_path, f"mpirun (Open MPI) 4.1.6\n{_osu_table()}", told=told).dataset) == 6


def test_tables_are_counted_as_launches_unless_they_lie_factors_apart(tmp_path: Path) -> None:
    """The import says how many and of what."""
    told = {"nodes": "4", "ppn": "16"}
    three = "".join(_osu_table(f) for f in (1.0, 1.1, 0.9))
    remarks = _log(tmp_path, three, told=told).remarks
    assert any(
        "3 tables of allreduce, taken as 3 launches of default on 4x16" in r for r in remarks
    )
    with refused("tables-apart", DataError, fast="slurm-1.out", slow="slurm-1.out/2"):
        _log(tmp_path, _osu_table() + _osu_table(3.0), told=told)


def test_paths_tell_what_files_do_not(tmp_path: Path) -> None:
    """Shape, algorithm and launch of many files in one call; another path is refused."""
    files = []
    for nodes in (2, 4):
        for algorithm in ("default", "3", "Ring"):
            file = tmp_path / f"{nodes}n" / algorithm / f"run{nodes}.out"
            file.parent.mkdir(parents=True)
            file.write_text(_osu_table(nodes + len(algorithm)))
            files.append(file)
    told = CONTEXT | {"ppn": "16"}
    asked = ImportRequest(told, KnownAlgorithms("4.1.6"), path="{nodes}n/{algorithm}/*.out")
    found = import_files(files, asked, None)
    assert _shapes(found) == ["2x16", "4x16"]
    names = found.dataset.frame["algorithm"].unique().tolist()
    assert names == ["default", "recursive_doubling", "ring"]
    for pattern, why in (
        ("{nodes}x/*.out", "path-not-like"),
        ("{speed}/*.out", "unknown name={speed}"),
        ("{nodes}n/{ppn}/*.out", "exclusive"),
    ):
        with refused(why, DataError):
            import_files(files, replace(asked, path=pattern), None)


def test_paths_tell_processes(tmp_path: Path) -> None:
    """Together with nodes or ppn, from the path or told; uneven ones are refused."""
    file = tmp_path / "allreduce-4-32-run7.out"
    file.write_text(_osu_table())
    asked = ImportRequest(CONTEXT, KnownAlgorithms("4.1.6"), path="*-{nodes}-{nprocs}-{launch}.out")
    found = import_files([file], asked, None)
    assert _shapes(found) == ["4x8"]
    assert set(found.dataset.frame["launch"]) == {"run7"}
    for told in ({}, {"ppn": "5"}):
        other = replace(asked, settings=CONTEXT | told, path="*-*-{nprocs}-*.out")
        with refused("path-uneven", DataError, nprocs="32"):
            import_files([file], other, None)


@pytest.mark.parametrize(
    ("title", "why"),
    [
        ("MPI Scatterv Latency", "is a collective that colltune does not tune"),
        ("MPI-CUDA Scatterv Latency", "is a collective that colltune does not tune"),
        ("MPI All-to-Allw Personalized Exchange Latency", "is a collective that colltune does"),
        ("MPI Non-blocking Allreduce Latency", "is a nonblocking collective"),
        ("MPI Persistent Allreduce Latency", "is a persistent collective"),
        ("NCCL Allreduce Latency", "is not of MPI"),
        ("MPI-CUDA Bandwidth", "is not a collective"),
        ("MPI Latency", "is not a collective"),
    ],
)
def test_what_osu_measures_beside_collectives_is_called_what_it_is(
    tmp_path: Path, title: str, why: str
) -> None:
    """In the remark on what is left out, and in the refusal of a file that holds nothing else."""
    other = f"# OSU {title} Test v7.3\n# Size  Latency (us)\n8  1.0\n"
    (remark,) = _read(tmp_path, OSU + other).remarks
    assert f"{title} {why}" in remark
    with refused("no-usable-measurements", DataError) as caught:
        _read(tmp_path, other)
    assert f"{title} {why}" in caught.value.values["why"]


def test_imb_that_also_ran_on_fewer_processes_takes_those_of_its_command(tmp_path: Path) -> None:
    """Without -npmin it runs on 2, 4, … of the processes that its command starts."""
    two = IMB.replace("# #processes = 8", "# #processes = 2\n# ( 6 additional processes waiting)")
    found = _log(tmp_path, f"+ srun -N 2 -n 8 IMB-MPI1 Bcast\n{two}{IMB}", from_commands=True)
    assert _shapes(found) == ["2x4"]
    assert any("on 2 processes, which do not fit the command" in r for r in found.remarks)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("prefix", ["", *TAGGED.values(), "\ufeff"])
def test_tables_of_any_separator_are_read(tmp_path: Path, separator: str, prefix: str) -> None:
    """By what their first line has most of, with decimal commas where commas part no columns."""
    rows = [["Algorithm", "Processors", "Message Size", "Latency (us)"]]
    rows += [["RecursiveDoubling", "8", "8", "3.25"], ["0", "8", "8", "5.5e0"]]
    lines = [separator.join(row) + "\n" for row in rows]
    if separator != ",":
        lines[1:] = [line.replace(".", ",") for line in lines[1:]]
    text = (
        "".join(prefix + line for line in lines) if prefix != "\ufeff" else prefix + "".join(lines)
    )
    told = CONTEXT | {"ppn": "2", "collective": "allreduce"}
    for name in ("times.csv", "times.txt"):
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        found = import_files([file], ImportRequest(told, KnownAlgorithms("4.1.6")), None)
        assert found.format == "csv"
        assert _times_us(found) == [3.25, 5.5]
        assert list(found.dataset.frame["algorithm"]) == ["recursive_doubling", "default"]
        assert _shapes(found) == ["4x2"]


def test_a_log_with_commas_is_no_table(tmp_path: Path) -> None:
    """What no column's name is known of is no CSV, and is not refused as one."""
    with refused("unknown-format", DataError):
        _read(tmp_path, "Loading module a, please wait\nLoaded a, b is missing\n")


def test_processes_that_fill_one_node_after_the_other(tmp_path: Path) -> None:
    """`slots` tells their shapes; what fills no nodes evenly is left out with its count."""
    text = "Processes,Size,Latency(us)\n"
    text += "".join(f"{n},8,{n / 10}\n" for n in (2, 16, 24, 32, 40))
    file = tmp_path / "a.csv"
    file.write_text(text)
    told = CONTEXT | {"collective": "bcast", "algorithm": "default"}
    asked = ImportRequest(told | {"slots": "16"}, KnownAlgorithms("4.1.6"))
    found = import_files([file], asked, None)
    assert _shapes(found) == ["1x2", "1x16", "2x16"]
    assert any("16 slots evenly: left out (2 times)" in remark for remark in found.remarks)
    assert _shapes(_log(tmp_path, f"+ mpirun -n 8 x\n{_osu_table()}", told={"slots": "16"})) == [
        "1x8"
    ]
    with refused("uneven-layout", DataError, layout="slots=16"):
        _log(tmp_path, f"+ mpirun -n 24 x\n{_osu_table()}", told={"slots": "16"})
    with refused("uneven-rows", DataError, those="5 rows of 5"):
        import_files([file], replace(asked, settings=told | {"ppn": "64"}), None)


def test_a_later_import_is_compared_with_the_dataset(tmp_path: Path) -> None:
    """What lies factors from the same cells there is no launch of one thing, whatever the call."""
    folder = tmp_path / "d"
    told = {"nodes": "4", "ppn": "2"}
    add_to(folder, _log(tmp_path, _osu_table(), told=told, launch="a"))
    add_to(folder, _log(tmp_path, _osu_table(1.3), told=told, launch="b"))
    with refused("tables-apart", DataError, fast="the dataset", slow="this import"):
        add_to(folder, _log(tmp_path, _osu_table(5.0), told=told, launch="c"))
    assert len(list(folder.glob("*.parquet"))) == 2

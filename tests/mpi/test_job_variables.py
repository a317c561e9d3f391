"""A job's variables out of job scripts and parameter files."""

from __future__ import annotations

import pytest

from colltune.errors import LibraryError
from colltune.mpi.openmpi.parameters.reading import read_variables
from tests.refusals import refused


def test_files_of_all_kinds() -> None:
    """Scripts, lists, parameter files and files of --tune set what the library then sees."""
    for text, found in (
        ("export A=1 B='x y'  # why\n", {"A": "1", "B": "x y"}),
        ("I_MPI_ADJUST_BCAST=3:0-8;1\n", {"I_MPI_ADJUST_BCAST": "3:0-8;1"}),
        ("coll_tuned_use_dynamic_rules = 1\n", {"OMPI_MCA_coll_tuned_use_dynamic_rules": "1"}),
        ("mtl = ^ofi\n\n", {"OMPI_MCA_mtl": "^ofi"}),
        ('coll = "tuned" # all\n', {"OMPI_MCA_coll": '"tuned" # all'}),
        ("--mca a 1 --mca b 'x y'\n-mca a 2", {"OMPI_MCA_a": "2", "OMPI_MCA_b": "x y"}),
        ("-x MPIR_CVAR_A=b\n", {"MPIR_CVAR_A": "b"}),
        ("OMPI_MCA_coll=^han\n# comment\n", {"OMPI_MCA_coll": "^han"}),
        ("setenv A 1\n", {"A": "1"}),
        ('setenv("A", "1")\nsetenv("B", path)\n', {"A": "1"}),
        ("export A=1\nunset A\n", {}),
        ("", {}),
    ):
        assert read_variables(text, "f")[0] == found, text


LAUNCHERS = (
    ("mpirun -np 4 --mca a 1 -mca b 2 -x C=3 -x PATH ./p -x D=4 --mca e 5", "a=1 b=2 C=3"),
    ("mpirun --oversubscribe --map-by ppr:2:node --mca a ^x python3 p.py --mca e 5", "a=^x"),
    ("mpiexec -genv A 1 -n 2 -env B=2 ./p : -n 1 -env C 3 ./q -env D 4", "A=1 B=2 C=3"),
    ("export A=1 B=2\nmpiexec -genvnone -genv C 3 ./p", "C=3"),
    ("export A=1\nsrun -n 4 --export=ALL,B=2 ./p", "A=1 B=2"),
    ("export A=1\nsrun --export=NONE,B=2 ./p", "B=2"),
    ("#SBATCH --export=ALL,A=1\nsrun ./p", "A=1"),
    ("#PBS -v A=1,B=2\nmpiexec ./p", "A=1 B=2"),
    ('MCA="--mca a 1 --mca b 2"\nmpirun $MCA $MORE ./p', "a=1 b=2"),
    ('O="--mca a 1 -np $N"\nO+=" --mca b 2 -x C=$D"\nmpirun $O ./p', "a=1 b=2"),
    ('O=(-np $N)\nO+=(--mca a "x y")\nO+=(-x B=2)\nmpirun "${O[@]}" -f /h ./p', "a=x\u00b7y B=2"),
    ('if X; then O="--mca a 1"; else O="--mca a 1 --mca b 2"; fi\nmpirun $O ./p', "a=1"),
    ("mpirun --prefix /opt/mpi --hostfile /h --mca a 1 -wd /w --mca b 2 ./p --mca c 3", "a=1 b=2"),
    ('RUN="mpirun -np 4 --mca a 1"\n$RUN --mca b 2 ./p', "a=1 b=2"),
    ('O="--mca a 1"\nmpirun "$O" ./p', ""),
    ("#!/bin/csh\n#PBS -v A=1\nsetenv B 2\nmpiexec ./p", "A=1 B=2"),
    ("mpirun -np 2 env A=1 ./p", "A=1"),
    ("A=1 numactl -l mpirun -np 2 ./p | tee log", "A=1"),
    ("flux run -N 2 -n4 --env=A=1 --env=B=2 ./p --env=C=3", "A=1 B=2"),
    ("aprun -n 4 -e A=1 -e B=2 ./p", "A=1 B=2"),
    ("jsrun -n 4 -E A=1 --env B=2 ./p", "A=1 B=2"),
    ("#PJM -x A=1,B=2\n#PJM -L node=2\nmpiexec ./p", "A=1 B=2"),
    ("#COBALT --env A=1:B=2\nmpiexec ./p", "A=1 B=2"),
    ('#BSUB -env "all, A=1, B=2"\nlrun ./p', "A=1 B=2"),
    ("# flux: --env=A=1\nflux run ./p", "A=1"),
    ("export A=1\nwhich mpirun\nexport A=2\nmpirun ./p", "A=2"),
)


@pytest.mark.parametrize(("script", "expected"), LAUNCHERS)
def test_options_of_launchers(script: str, expected: str) -> None:
    """What a launcher hands to its programs counts, and their own words do not."""
    header = "" if script.startswith("#!") else "#!/bin/bash\n"
    found = read_variables(f"{header}{script}\n", "f")[0]
    named = {name.removeprefix("OMPI_MCA_"): value for name, value in found.items()}
    pairs = (pair.replace("\u00b7", " ").split("=", 1) for pair in expected.split())
    assert named == dict(pairs)


def test_what_a_script_does_not_tell_is_noted() -> None:
    """Values that only the job knows, what is not exported, and lines that set nothing."""
    for script, words in (
        ("export OMPI_MCA_coll=$X\n", ["f:1:", "$X"]),
        ("export OMPI_MCA_coll=$(cat x)\n", ["$(cat x)"]),
        ('if [ -n "$X" ]; then\n export OMPI_MCA_coll=^han\nfi\n', ["condition on line 1"]),
        ("for a in 1 2; do OMPI_MCA_coll=$a mpirun ./p; done\n", ["$a"]),
        ("OMPI_MCA_coll=1\nexport A=1\n", ["not exported"]),
        ('X="--mca coll $Y"\nmpirun $X ./p\n', ["f:2:", "$Y"]),
        ("case $X in\na) O='--mca coll a';;\nesac\nmpirun $O ./p\n", ["condition on line 1"]),
        ("f() {\n export OMPI_MCA_coll=a\n}\n", ["a call of f"]),
        (". ./a.sh\nsource $D/b.sh\nexport A=1\n", ["f:1:", "./a.sh, $D/b.sh"]),
        ("module load x\ncd /\nexport A=1\n", ["2 lines"]),
        ("export OMPI_MCA_coll=1\nmpirun ./p\nexport OMPI_MCA_coll=2\nmpirun ./p\n", ["1 and 2"]),
    ):
        notes = read_variables(script, "f")[1]
        assert len(notes) in (1, 2), script
        assert all(any(word in note for note in notes) for word in words), (script, notes)


def test_other_lines_are_refused() -> None:
    """The message names file and line, of parameter files and of what is no script at all."""
    for line in ("nonsense", "--mca only_name", "a b = c\nd = 1", "'x"):
        with refused("sets-nothing", LibraryError, file="f", line=2):
            read_variables(f"# first\n{line}\n", "f")

"""What manifests in YAML and XML set for the programs in their containers."""

from __future__ import annotations

import pytest

from colltune.errors import LibraryError
from colltune.mpi.formats import format_of
from colltune.mpi.job_files import read_script
from tests.refusals import refused

JOB = """\
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
spec:
  replicas:
    Launcher:
      containers:
      - name: launcher
        command: [mpirun]
        args:
        - -x
        - OMPI_MCA_a=1
        - --mca
        - b
        - "2"
        - python
        - --mca
        - c
        env:
        - name: OMPI_MCA_d
          value: "3"
        - name: OMPI_MCA_e
          valueFrom: {fieldRef: {fieldPath: x}}
    Worker:
      containers:
      - command: ["bash", "-c"]
        args:
        - |
          export I_MPI_f=4
          mpirun -n 2 ./p
"""
COMPOSE = """\
services:
  one:
    environment:
      - OMPI_MCA_a=1
      - OMPI_MCA_b=$B
  two:
    environment: {MPIR_CVAR_c: 2}
"""
CHART = """\
{{- if .Values.tuned }}
env:
  - name: OMPI_MCA_a
    value: 1
{{- end }}
jobs:
  - env:
      - {name: OMPI_MCA_b, value: "{{ .Values.b }}"}
      - {name: OMPI_MCA_c, value: "x y"}
"""
MACHINE = """\
<machine MACH="one">
  <environment_variables>
    <env name="OMPI_MCA_a">1</env> <!-- <env name="OMPI_MCA_b">2</env> -->
  </environment_variables>
  <environment_variables mpilib="impi">
    <env name="I_MPI_c">3</env>
  </environment_variables>
</machine>
"""
RECIPE = """\
# easyblock
easyblock = 'Bundle'
name = 'MPI-settings'
modextravars = {
    'OMPI_MCA_a': '1',
    'OMPI_MCA_b': local_b,
}
"""
PROGRAM = """\
import os
os.environ["OMPI_MCA_a"] = "1"
env.set("I_MPI_b", 2)
"""


@pytest.mark.parametrize(
    ("text", "known", "unknown"),
    [
        (JOB, "OMPI_MCA_a=1:8, OMPI_MCA_b=2:8, OMPI_MCA_d=3:19, I_MPI_f=4:28", "OMPI_MCA_e"),
        (COMPOSE, "OMPI_MCA_a=1:4, MPIR_CVAR_c=2:7", "OMPI_MCA_b"),
        (CHART, "OMPI_MCA_c=x y:9", "OMPI_MCA_a OMPI_MCA_b"),
        (MACHINE, "OMPI_MCA_a=1:3", "I_MPI_c"),
        (f'<?xml version="1.0"?>\n{MACHINE}{MACHINE}', "", "OMPI_MCA_a I_MPI_c"),
        (RECIPE, "OMPI_MCA_a=1:5", "OMPI_MCA_b"),
        (PROGRAM, "OMPI_MCA_a=1:2, I_MPI_b=2:3", ""),
    ],
    ids=["MPIJob", "compose", "chart", "CIME", "CIME's machines", "EasyBuild", "Python"],
)
def test_what_a_manifest_sets(text: str, known: str, unknown: str) -> None:
    """Names, values and lines are found, and what a template or a condition decides is told."""
    found = read_script(text)
    read = {f"{each.name}={each.value}:{each.line}" for each in found.known}
    assert read == {*filter(None, known.split(", "))}
    assert {each.name for each in found.found if each.unknown} == {*unknown.split()}


def test_manifests_are_known_by_what_they_set() -> None:
    """Each is a list of variables of the library that it names."""
    for text, name in (
        ('apiVersion: v1\nenv:\n- name: "I_MPI_ADJUST_BCAST"\n  value: "3"\n', "intelmpi-adjust"),
        ("env:\n  MPIR_CVAR_BCAST_INTRA_ALGORITHM: binomial\n", "mpich-cvars"),
        (MACHINE.replace("impi", "openmpi"), "openmpi-parameters"),
        (RECIPE, "openmpi-parameters"),
        ('import os\nos.environ["I_MPI_ADJUST_BCAST"] = "3"\n', "intelmpi-adjust"),
    ):
        assert format_of(text, "f").name == name


def test_what_is_no_yaml_is_refused_with_its_line() -> None:
    """The message names the line."""
    with refused("not-parsed", LibraryError):
        read_script("env:\n  A_B: [1\n  C_D: 2\n")


def test_settings_far_down_a_script_are_found() -> None:
    """However long a script is, what it sets counts."""
    text = (
        "#!/bin/bash\n" + "echo some words\n" * 10_000 + "export OMPI_MCA_coll=^han\nmpirun ./p\n"
    )
    assert format_of(text, "f").name == "openmpi-parameters"

"""A real Slurm with colltune's hooks, and a service of which tests decide what it answers."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.slurmbed import Slurmbed, slurmbed
from tests.server.slurm.fake_service import FakeService
from tests.server.slurm.site import Site

RULES = "OMPI_MCA_coll_tuned_dynamic_rules_filename"
TOLD = f'echo "$1 told ${{{RULES}:-nothing}}"'
ON_CONTROLLER = """
PrologSlurmctld={hooks}/prolog.sh
EpilogSlurmctld={hooks}/epilog.sh
PropagateResourceLimits=NONE
"""
ON_NODES = "Prolog={hooks}/prolog.sh\nEpilog={hooks}/epilog.sh\nPropagateResourceLimits=NONE\n"
FOR_TASKS = "TaskProlog={hooks}/task_prolog.sh\n"


class HookedSlurm:
    """A Slurm with the hooks, and a service of which tests decide what it answers."""

    def __init__(self, slurm: Slurmbed, site: Site, service: FakeService) -> None:
        self.slurm, self.site, self.service = slurm, site, service

    def srun(self, *options: str, who: str = "task", **environment: str) -> list[str]:
        """Return what each task of a direct srun says it was told, sorted, without the folder."""
        script = ("sh", "-c", TOLD, "sh", who)
        outcome = self.slurm.run("srun", "--quiet", *options, *script, **environment)
        assert outcome.ok, outcome.explain()
        return sorted(self.shown(outcome.stdout).splitlines())

    def shown(self, text: str) -> str:
        """Return `text` with the paths of rules files shortened to their shape."""
        return re.sub(rf"{self.site.jobs}/\d+/openmpi-[\d.]+/(\d+x\d+)/rules", r"\1", text)

    def sbatch(self, script: str, *options: str, **environment: str) -> tuple[str, str]:
        """Run a batch script to its end; return its job's number and output."""
        path = self.slurm.folder / "job.sh"
        path.write_text(f"#!/bin/sh\ntold() {{\n{TOLD}\n}}\n{script}\n")
        output = self.slurm.folder / "out"
        submit = ("sbatch", "--parsable", f"--output={output}", *options)
        job = self.slurm.ask(*submit, path, **environment).strip().partition(";")[0]
        ended = self.slurm.wait_for_state(job, "COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL")
        text = output.read_text()
        assert ended["JobState"] == "COMPLETED", text + self.slurm.logs()
        return job, self.shown(text)

    def drained(self) -> list[str]:
        """Return the nodes that take no more jobs, with their states."""
        lines = self.slurm.ask("sinfo", "--noheader", "--Node", "--format=%n=%t").split()
        assert len(lines) == len(self.slurm.nodes)
        good_states = ("idle", "comp", "alloc", "mix")
        return [line for line in lines if line.partition("=")[2] not in good_states]


@contextmanager
def hooked_slurm(
    nodes: int = 2, cpus: int = 4, *, on_nodes: bool = False, for_tasks: bool = True
) -> Iterator[HookedSlurm]:
    """Yield a Slurm that any user can run jobs on, or skip with the reason; end all of it.

    The prolog runs on the controller, or as Prolog `on_nodes`. Without `for_tasks` there is no task
    prolog, so that jobs may name one.
    """
    folder = Path(tempfile.mkdtemp(prefix="ctslurm"))
    folder.chmod(0o755)
    try:
        service = FakeService(folder / "service")
        site = Site(folder, folder / "service")
        (folder / "slurm").mkdir()
        lines = ON_NODES if on_nodes else ON_CONTROLLER
        conf = (lines + (FOR_TASKS if for_tasks else "")).format(hooks=site.hooks)
        with (
            service.running(),
            slurmbed(
                folder / "slurm", nodes, cpus, munge=True, scheduler="backfill", extra=conf
            ) as slurm,
        ):
            yield HookedSlurm(slurm, site, service)
    finally:
        shutil.rmtree(folder, ignore_errors=True)

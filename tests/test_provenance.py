"""Facts about a run."""

from __future__ import annotations

import pytest

from colltune import provenance


def test_secrets_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of the MPI library are recorded, secrets among them are not."""
    monkeypatch.setenv("OMPI_MCA_btl", "self")
    monkeypatch.setenv("SLURM_JOB_TOKEN", "hush")
    facts = provenance.collect({"backend": "native"})
    assert facts["env.OMPI_MCA_btl"] == "self"
    assert facts["backend"] == "native"
    assert "hush" not in facts.values()
    assert int(facts["cores"]) >= 1

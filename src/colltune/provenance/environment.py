"""Environment variables that change what is measured, without secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PREFIXES = (
    "OMPI_",
    "PMIX_MCA_",
    "PRTE_",
    "MPICH_",
    "MPIR_",
    "I_MPI_",
    "HYDRA_",
    "MV2_",
    "MVP_",
    "UCX_",
    "UCC_",
    "HCOLL_",
    "SHARP_",
    "FI_",
    "PSM2_",
    "PSM3_",
    "HFI_",
    "OMP_",
    "KMP_",
    "GOMP_",
    "SLURM_",
    "PALS_",
    "MALLOC_",
)
_NAMES = frozenset({"LD_PRELOAD", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "HUGETLB_MORECORE"})
_SECRET_MARKS = (
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "KEY",
    "CREDENTIAL",
    "COOKIE",
    "JWT",
    "AUTH",
)
_PERSONAL_WORDS = frozenset(
    {
        "ACCOUNT",
        "COMMENT",
        "DIR",
        "GID",
        "GROUP",
        "HOME",
        "MAIL",
        "SUBMIT",
        "UID",
        "USER",
        "USERNAME",
        "WCKEY",
    }
)
_URL_WITH_PASSWORD = re.compile(r"://[^/\s@]*:[^/\s@]*@")


def facts(environment: Mapping[str, str], home: str) -> dict[str, str]:
    """Return ``env.NAME`` for each relevant variable; `home` is written as ``~``.

    Left out is what looks like a secret, by its name or in its value, and what tells who ran it.
    """
    return {
        f"env.{name}": _without_home(value, home)
        for name, value in sorted(environment.items())
        if _is_relevant(name) and not _is_private(name) and not _holds_secret(value)
    }


def _is_relevant(name: str) -> bool:
    return name.startswith(_PREFIXES) or name in _NAMES


def _is_private(name: str) -> bool:
    upper = name.upper()
    is_secret = any(mark in upper for mark in _SECRET_MARKS)
    return is_secret or not _PERSONAL_WORDS.isdisjoint(upper.split("_"))


def _holds_secret(value: str) -> bool:
    assigned = (word.rpartition("=")[0].upper() for word in re.split(r"[\s;,]", value))
    by_name = any(mark in name for name in assigned for mark in _SECRET_MARKS)
    return by_name or bool(_URL_WITH_PASSWORD.search(value))


def _without_home(value: str, home: str) -> str:
    if not home.strip("/"):
        return value
    return re.sub(rf"{re.escape(home.rstrip('/'))}(?![^/:;,\s])", "~", value)

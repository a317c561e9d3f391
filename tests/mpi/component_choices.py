"""Choices of Open MPI's components by variables with which MPI_Init fails, and others."""

from __future__ import annotations

_COLL, _BASIC, _LIBNBC = (
    "OMPI_MCA_coll",
    "OMPI_MCA_coll_basic_priority",
    "OMPI_MCA_coll_libnbc_priority",
)
UNSTARTABLE = (
    *((_COLL, value) for value in ("tuned", "tuned,basic", "tuned,libnbc", "self")),
    *((_COLL, value) for value in ("^basic", "^libnbc", "^tuned,basic")),
    *((_COLL, value) for value in ("tuned,nosuch,basic,libnbc", "tuned, basic, libnbc")),
    *((_COLL, value) for value in ("tuned,^basic", "^tuned,^basic")),
    (_BASIC, "-1"),
    (_LIBNBC, "-1"),
)
STARTABLE = (
    *((_COLL, value) for value in ("tuned,basic,libnbc", "basic,libnbc,self", "", "^")),
    *((_COLL, value) for value in ("^self", "^tuned", "^nosuch", "han,tuned,libnbc,basic")),
    (_BASIC, "0"),
    (_LIBNBC, "200"),
    ("OMPI_MCA_coll_tuned_priority", "-1"),
    ("OMPI_MCA_coll_self_priority", "-1"),
)

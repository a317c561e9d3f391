"""Examples of answers, for the description of the interface."""

from __future__ import annotations

from typing import Any

_ID = "5d0f" * 16

RULES = """\
1 # colltune: bcast, 4 nodes x 8
7 # bcast
1 # communicator sizes
32 # processes
2 # message sizes
0 6 0 0 # from 0 B: binomial
262144 0 0 0 # from 256 KiB: the library's own decision
"""

JOB_FILE = f"""\
colltune-job 1
bundle {_ID}
library openmpi 4.1.4
user OMPI_MCA_coll_tuned_*
harmless *_verbose
shape 4x8
file 4x8/rules 7
{RULES}set OMPI_MCA_coll_tuned_use_dynamic_rules=1
set OMPI_MCA_coll_tuned_dynamic_rules_filename=/shared/colltune/1234/4x8/rules
end
"""

METRICS = """\
# HELP colltune_http_requests_total Requests answered.
# TYPE colltune_http_requests_total counter
colltune_http_requests_total{method="GET",route="/v1/select",status="200"} 12.0
"""

DECISION: dict[str, Any] = {
    "collective": "bcast",
    "nodes": 4,
    "ppn": 8,
    "msize_bytes": 65536,
    "algorithm": "binomial",
    "parameters": None,
    "segsize_bytes": None,
    "time_s": 4.1e-05,
    "lower_s": 3.2e-05,
    "upper_s": 5.4e-05,
    "default_time_s": 6.0e-05,
    "reason": "predicted 1.46x faster than the default",
    "status": "predicted",
    "configuration": "openmpi.bcast.binomial",
    "gain": 1.46,
    "gain_bound": 1.2,
    "extrapolated": False,
    "runners_up": [{"configuration": "openmpi.bcast.default", "time_s": 6.0e-05}],
}

TABLE: dict[str, Any] = {
    "bundle": _ID,
    "objective": "median",
    "shape": {"nodes": 4, "ppn": 8},
    "intervals": [
        {
            "collective": "bcast",
            "first_bytes": 0,
            "last_bytes": 262143,
            "configuration": "openmpi.bcast.binomial",
            "time_s": 2.1e-05,
            "default_time_s": 3.0e-05,
            "gain": 1.4285714285714286,
            "reason": "predicted 1.43x faster than the default",
            "status": "predicted",
        },
        {
            "collective": "bcast",
            "first_bytes": 262144,
            "last_bytes": None,
            "configuration": "openmpi.bcast.default",
            "time_s": 0.0011,
            "default_time_s": 0.0011,
            "gain": None,
            "reason": "the default is predicted fastest",
            "status": "predicted",
        },
    ],
}

BUNDLES: dict[str, Any] = {
    "in_force": {"openmpi-4.1.4": _ID},
    "bundles": [
        {
            "id": _ID,
            "context": {
                "machine": "hydra",
                "library": "openmpi",
                "library_version": "4.1.4",
                "fabric": "Omni-Path",
            },
            "collectives": ["bcast"],
            "objective": "median",
            "created_utc": "2026-01-31T04:00:00+00:00",
            "size_bytes": 31337,
            "slot": "openmpi-4.1.4",
            "in_force": True,
        }
    ],
    "history": [
        {
            "sequence": 1,
            "slot": "openmpi-4.1.4",
            "bundle_id": _ID,
            "previous_id": None,
            "action": "promote",
            "at_utc": "2026-01-31T04:00:01+00:00",
            "by": "retrain",
            "note": "",
        }
    ],
}

STORED: dict[str, Any] = {
    "new": True,
    "rows": 2160,
    "file": "received-7c1f7c1f7c1f.parquet",
    "sha256": "7c1f" * 16,
    "context": BUNDLES["bundles"][0]["context"],
}

READY: dict[str, Any] = {"ready": True, "bundles": {"openmpi-4.1.4": _ID}, "problems": []}
PROBLEM: dict[str, Any] = {
    "type": "about:blank",
    "title": "Not Found",
    "status": 404,
    "detail": "no bundle for openmpi 3.1.6; there are bundles for openmpi-4.1.4",
}
MEASUREMENTS = (
    "machine,library,library_version,collective,algorithm,nodes,ppn,msize_bytes,launch,time_s\n"
    "hydra,openmpi,4.1.4,bcast,binomial,4,16,1024,job 4711,1.5e-05\n"
)

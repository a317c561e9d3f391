"""``python -m figures NAME`` measures a figure; without a name it lists them."""

from __future__ import annotations

import sys
from collections.abc import Callable

from figures import (
    adaptive_alltoallv,
    application_overhead,
    budget_with_slow_start,
    campaign_cost,
    campaign_cost_at_95pct,
    cold_select,
    confirmed_again,
    confirmed_quality,
    confirming_worlds,
    copy_congestion,
    differential_agreement,
    drift_alarms,
    epilog_ms,
    fit_everything_s,
    han_tuning_vs_exhaustive,
    hierarchical_allgather,
    hierarchical_bcast,
    http_cold_shape_s,
    http_config,
    http_garbage,
    import_colltune,
    interposition_ns,
    legal_violations,
    loop_proof,
    loop_service_mb,
    loop_slurm,
    loop_storage_gb,
    one_launch_speedup,
    page_cost,
    profile_overhead_ns,
    promise_cost,
    promote_under_load,
    render_shape_ms,
    reprompi_agreement,
    results_cost,
    results_program,
    results_violations,
    retrain_250k_seconds,
    runtime_decision_vs_ifelse,
    select_shape_ms,
    selection_quality,
    slurm_200_jobs,
    smpi_hierarchical_bcast,
    switch_points,
    task_prolog_ms,
    timed_share,
    transfer,
    virtual_cluster_error,
)
from figures.figure import Figure

FIGURES: dict[str, Callable[[], Figure]] = {
    "adaptive_alltoallv": adaptive_alltoallv.run,
    "campaign_cost": campaign_cost.run,
    "campaign_cost_at_95pct": campaign_cost_at_95pct.run,
    "allgather_leaders": hierarchical_allgather.run_leaders,
    "allgather_overlap": hierarchical_allgather.run_overlap,
    "application_overhead": application_overhead.run,
    "budget_with_slow_start": budget_with_slow_start.run,
    "cold_select": cold_select.run,
    "first_draw_ms": page_cost.first_draw_ms,
    "report_s": page_cost.report_s,
    "confirmed_again": confirmed_again.run,
    "confirmed_coverage": confirming_worlds.confirmed_coverage,
    "confirmed_quality": confirmed_quality.run,
    "confirming_power": confirming_worlds.confirming_power,
    "copy_congestion": copy_congestion.run,
    "differential_agreement": differential_agreement.run,
    "drift_alarms": drift_alarms.run,
    "epilog_ms": epilog_ms.run,
    "false_confirmations": confirming_worlds.false_confirmations,
    "fit_everything_s": fit_everything_s.run,
    "han_tuning_vs_exhaustive": han_tuning_vs_exhaustive.run,
    "http_cold_shape_s": http_cold_shape_s.run,
    "hierarchical_allgather": hierarchical_allgather.run,
    "hierarchical_allreduce": hierarchical_allgather.run_allreduce,
    "hierarchical_bcast": hierarchical_bcast.run,
    "http_config_vs_empty": http_config.run,
    "http_garbage": http_garbage.run,
    "http_p99_vs_empty": http_config.run_p99,
    "import_colltune": import_colltune.run,
    "interposition_ns": interposition_ns.run,
    "legal_violations": legal_violations.run,
    "loop_drift": loop_proof.run_drift,
    "loop_false_withdrawals": loop_proof.run_false_withdrawals,
    "loop_gain_coverage": loop_proof.run_coverage,
    "loop_jobs_to_withdrawal": loop_proof.run_withdrawal,
    "loop_service_mb": loop_service_mb.run,
    "loop_slurm": loop_slurm.run,
    "loop_storage_gb": loop_storage_gb.run,
    "one_launch_speedup": one_launch_speedup.run,
    "profile_overhead_ns": profile_overhead_ns.run,
    "promise_cost": promise_cost.run,
    "promote_under_load": promote_under_load.run,
    "render_shape_ms": render_shape_ms.run,
    "reprompi_agreement": reprompi_agreement.run,
    "results_cost": results_cost.run,
    "results_program": results_program.run,
    "results_violations": results_violations.run,
    "retrain_250k_seconds": retrain_250k_seconds.run,
    "rule_base_decision_vs_ifelse": runtime_decision_vs_ifelse.run_rules,
    "runtime_decision_vs_ifelse": runtime_decision_vs_ifelse.run,
    "selection_quality": selection_quality.run,
    "select_shape_ms": select_shape_ms.run,
    "slurm_200_jobs": slurm_200_jobs.run,
    "smpi_hierarchical_bcast": smpi_hierarchical_bcast.run,
    "switch_points": switch_points.run,
    "task_prolog_ms": task_prolog_ms.run,
    "task_prolog_srun_ms": task_prolog_ms.run_srun,
    "timed_share": timed_share.run,
    "transfer": transfer.run,
    "tune_timed_share": timed_share.run_tune,
    "virtual_cluster_error": virtual_cluster_error.run,
}


def main(names: list[str]) -> int:
    """Measure the figures named, or list all; return the exit status."""
    if not names:
        for name, run in sorted(FIGURES.items()):
            print(f"{name}: {(run.__doc__ or '').splitlines()[0]}")
        return 0
    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        print(f"no figure {unknown[0]!r}; there are {', '.join(FIGURES)}", file=sys.stderr)
        return 2
    for name in names:
        print(FIGURES[name]().as_json())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

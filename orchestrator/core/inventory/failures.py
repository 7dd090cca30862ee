"""Names of failures that an inventory may use; a test holds them to the signatures there are.

Detection lies above the inventory and may not be imported here.
"""

SIGNATURES = frozenset(
    {
        *("fx_trace_race", "fx_trace_nested", "dynamo_compile_error", "triton_error", "cuda_oom"),
        *("host_oom", "cuda_illegal_access", "cuda_device_assert", "gpu_fault", "nccl_timeout"),
        *("cublas_cudnn_error", "nccl_error", "rendezvous_or_port", "driver_mismatch"),
        *("import_error", "checkpoint_corrupt", "disk_full", "shm_exhausted", "segfault"),
        *("nan_loss", "hub_or_dataset_error", "interrupted", "python_error"),
        *("elastic_child_failed", "silent_eager"),
    }
)
BY_THEMSELVES = frozenset(
    {
        *("hang", "blind", "expectation_failed", "throughput_drop", "straggler"),
        *("output_lost", "launch_failed", "lost", "killed", "failed_exit"),
    }
)
"""Names of alerts that no line of a log stands behind."""

WATCHED = frozenset({"hang", "expectation_failed", "throughput_drop", "straggler", "output_lost"})
"""What is found of a run that lives and prints nothing of it: it may be stopped for that."""

GROUPS = frozenset({"infra", "cuda_ecc", "interruption"})
"""Several signatures by one word, for `restart: {on: ...}`."""

LOST = "lost"
"""An end of which no exit record tells, as after a reboot, for `restart: {on: ...}`."""

DEATHS = frozenset({"thread_death", "rank_death", "process_death"})
"""The end of any thread, rank or process, for `watch: {stop_on: ...}`."""

"""What of a job decides how a run starts, as keys and texts."""

from dataclasses import replace

from orchestrator.core.model import Host, Job, Run, RunState, Target, WatchPolicy
from orchestrator.launch.configuration import asked, changed_keys, configuration

JOB = Job(
    name="dflash",
    targets=(Target(name="local", host=Host(name="here", transport="local")),),
    command="python3 -m trainer",
    workdir="/w",
    env={"BATCH": "8", "WANDB_API_KEY": "do-not-keep"},
    secrets=("HF_TOKEN",),
)
RUN = Run(
    id="dflash-1", uid="u", job="dflash", target="local", number=1, state=RunState.RUNNING,
    attempt=1, session="dflash", directory="/w/runs/x", args=("--lr", "0.1"),
)  # fmt: skip


def test_changes_are_named_by_key() -> None:
    """A variable of the run wins over the job's; policies are looked into; the same is nothing."""
    changed = replace(JOB, watch=WatchPolicy(output_within_s=60.0))
    run = replace(RUN, env={"BATCH": "16"}, args=())
    assert changed_keys(configuration(JOB, RUN), configuration(changed, run)) == [
        ("args", "--lr 0.1", ""),
        ("env.BATCH", "8", "16"),
        ("watch.output_within_s", "", "60.0"),
    ]
    assert changed_keys(configuration(JOB, RUN), configuration(JOB, RUN)) == []


def test_values_with_a_secret_name_are_not_kept() -> None:
    """The name stays, the value does not; of secrets only names are known at all."""
    said = configuration(JOB, RUN)
    assert "do-not-keep" not in str(said)
    assert (said["env.WANDB_API_KEY"], said["secrets"]) == ("(hidden)", "HF_TOKEN")


def test_what_was_asked_for_is_kept_without_any_secret() -> None:
    """A variable that names a secret, or holds the value of one, is left out, and that is said."""
    run = replace(RUN, env={"BATCH": "16"}, why="larger batches")
    assert asked(run, {"HF_TOKEN": "hf_abcdef"}) == {
        "target": "local",
        "args": ["--lr", "0.1"],
        "env": {"BATCH": "16"},
        "why": "larger batches",
        "forced": False,
        "whole": True,
    }
    leaky = {"WANDB_API_KEY": "do-not-keep", "URL": "https://hf_abcdef@example", "BATCH": "16"}
    kept = asked(replace(run, env=leaky), {"HF_TOKEN": "hf_abcdef"})
    assert (kept["env"], kept["whole"]) == ({"BATCH": "16"}, False)
    kept = asked(replace(run, args=("--token", "hf_abcdef"), env={}), {"HF_TOKEN": "hf_abcdef"})
    assert (kept["args"], kept["whole"]) == ([], False)

"""Compilation safe by construction: one thread, one limit that fails, nothing left behind."""

import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo
import torch.fx
from torch._dynamo import config as dynamo
from torch.nn.attention import flex_attention

from tests.trainer.test_flex import LENGTH, NUM_BLOCKS, scene
from trainer import train
from trainer.attempt import Start
from trainer.config import Config
from trainer.drafter import assert_never_dense, attend_dense, new_drafter
from trainer.layers import Shape
from trainer.masks import dense_mask

pytestmark = pytest.mark.timeout(700)


@pytest.fixture
def _clean_dynamo() -> Iterator[None]:
    limits = dynamo.recompile_limit, dynamo.fail_on_recompile_limit_hit
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    torch._dynamo.reset()
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
    torch._dynamo.reset()
    dynamo.recompile_limit, dynamo.fail_on_recompile_limit_hit = limits


# dynamo looks for a gradient on every input, and hides the warning only where that is allowed.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
@pytest.mark.usefixtures("_clean_dynamo")
def test_tripwire_one_thread_traces_and_calls_compiled_code(
    small_config: Callable[..., Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run with evaluations, saves and plans ahead traces and runs its layer in one thread."""
    traced, called = set[int](), set[int]()
    trace, compiling = torch.fx.Tracer.trace, torch.compile

    def watched_trace(*args: Any, **kwargs: Any) -> Any:
        traced.add(threading.get_ident())
        return trace(*args, **kwargs)

    def watched_compile(*args: Any, **kwargs: Any) -> Any:
        compiled = compiling(*args, **kwargs)

        def call(*args: Any, **kwargs: Any) -> Any:
            called.add(threading.get_ident())
            return compiled(*args, **kwargs)

        return call

    monkeypatch.setattr(torch.fx.Tracer, "trace", watched_trace)
    monkeypatch.setattr(torch, "compile", watched_compile)
    call_of_module = torch.nn.Module.__call__
    config = small_config(
        "total_steps=3", "eval_every=2", "checkpoint.every=2", "compile=aot_eager"
    )
    start = Start(
        folder=tmp_path / "kept", run_folder=None, resume=False, must_resume=False, fresh=False
    )
    assert train.main(config, start) == 0
    assert traced == called == {threading.get_ident()}
    from torch.fx._symbolic_trace import is_fx_symbolic_tracing

    assert not is_fx_symbolic_tracing()
    assert torch.nn.Module.__call__ is call_of_module


@pytest.mark.usefixtures("_clean_dynamo")
def test_a_recompilation_beyond_the_limit_fails() -> None:
    """The limit is raised, and running uncompiled past it is an error, not a silent loss."""
    shape = Shape(
        vocab=8, hidden=32, ffn=48, layers=0, heads=4, kv_heads=2, head_dim=16,
        rope_theta=100.0, eps=1e-6,
    )  # fmt: skip
    drafter = new_drafter(shape, 1, 1, seed=1, device=torch.device("cpu"), dtype=torch.float32)
    drafter.compile_layers("eager")
    assert dynamo.recompile_limit >= 64
    dynamo.recompile_limit = 1
    anchor, keep, doc = scene(1)

    def run(rows: int) -> None:
        attend = attend_dense(dense_mask(anchor[:rows], keep[:rows], doc[:rows], 8))
        slots = torch.arange(NUM_BLOCKS * 8).expand(rows, -1)
        noise = torch.randn(rows, NUM_BLOCKS * 8, 32)
        context = torch.arange(LENGTH).expand(rows, -1)
        with torch.no_grad():
            drafter(noise, torch.randn(rows, LENGTH, 32), context, slots, attend)

    run(2)
    with pytest.raises(Exception, match="recompile_limit"):
        run(1)


def test_dense_flex_attention_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch warns of it once; the trainer ends."""
    monkeypatch.setattr(flex_attention, "_WARNINGS_SHOWN", set())
    assert_never_dense()
    monkeypatch.setattr(flex_attention, "_WARNINGS_SHOWN", {"flex_attention_performance"})
    with pytest.raises(RuntimeError, match="flex attention ran uncompiled"):
        assert_never_dense()


def test_torch_still_says_when_flex_attention_runs_dense() -> None:
    """The name that the check looks for is the one that torch writes on an uncompiled call."""
    before = set(flex_attention._WARNINGS_SHOWN)
    flex_attention._WARNINGS_SHOWN.discard("flex_attention_performance")
    x = torch.randn(1, 1, 128, 16)
    try:
        with pytest.warns(UserWarning, match="flex_attention called without torch.compile"):
            flex_attention.flex_attention(x, x, x)
        assert "flex_attention_performance" in flex_attention._WARNINGS_SHOWN
    finally:
        flex_attention._WARNINGS_SHOWN.clear()
        flex_attention._WARNINGS_SHOWN.update(before)

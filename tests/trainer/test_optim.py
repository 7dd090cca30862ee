"""The optimizers: Muon's directions, its share of the work, and both ones' states."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn

from trainer.config import Config, ConfigError, OptimConfig
from trainer.configfile import dump
from trainer.feedforward import feed_forward
from trainer.muon import Muon, new_optimizer, orthogonal


def parameters() -> list[nn.Parameter]:
    """A tall and a wide matrix, an embedding and a vector."""
    generator = torch.Generator().manual_seed(1)
    sizes = ((12, 5), (4, 9), (20, 6), (7,))
    return [nn.Parameter(torch.randn(size, generator=generator)) for size in sizes]


def give_gradients(given: Sequence[nn.Parameter], seed: int) -> None:
    """Random ones."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in given:
        parameter.grad = torch.randn(parameter.shape, generator=generator)


@pytest.mark.parametrize("size", [(30, 8), (8, 30), (16, 16)])
def test_muons_direction_is_nearly_orthogonal(size: tuple[int, int]) -> None:
    """All singular values come near 1, and the singular vectors stay."""
    x = torch.randn(size, generator=torch.Generator().manual_seed(2))
    y = orthogonal(x)
    values = torch.linalg.svdvals(y)
    assert values.min() > 0.3
    assert values.max() < 1.3
    left, _, right = torch.linalg.svd(x, full_matrices=False)
    turned = left.mT @ y @ right.mT
    assert (turned - torch.diag(turned.diagonal())).abs().max() < 1e-4


def test_muon_moves_matrices_by_adamws_size_and_the_rest_by_adamw() -> None:
    """A matrix's first update has the root mean square 0.2 of the rate; `plain` is AdamW's."""
    given = parameters()
    before = [p.detach().clone() for p in given]
    optimizer = Muon(given, OptimConfig(lr=1e-2, clip=1e9), plain=[given[2]])
    give_gradients(given, 3)
    optimizer.step(1e-2)
    moved = [(p.detach() - b).square().mean().sqrt() / 1e-2 for p, b in zip(given, before)]  # noqa: B905  # of one list
    assert moved[0] == pytest.approx(0.2, rel=0.3)
    assert moved[1] == pytest.approx(0.2, rel=0.3)
    assert moved[2] == pytest.approx(1.0, rel=0.01), "AdamW's first update is the rate itself"
    assert moved[3] == pytest.approx(1.0, rel=0.01)
    assert all(p.grad is None for p in given)


def test_muon_asks_each_matrix_of_one_drafter_only() -> None:
    """What is spread are the updates: here another drafter's are handed in as zeros."""
    given = parameters()
    before = [p.detach().clone() for p in given]

    def spread(tensors: Sequence[Tensor], fill: Callable[[int], None]) -> None:
        fill(0)
        for other in tensors[1:]:
            other.zero_()

    optimizer = Muon(given, OptimConfig(), spread=spread)
    give_gradients(given, 4)
    optimizer.step(1e-2)
    still = [torch.equal(p.detach(), b) for p, b in zip(given, before, strict=True)]
    assert still == [False, True, True, False]


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_an_optimizer_goes_on_from_its_state(kind: str) -> None:
    """Two steps, the state into a fresh optimizer, a third step: the same to the bit."""
    config = OptimConfig(kind=kind, weight_decay=0.1)
    first, second = parameters(), parameters()
    optimizer = new_optimizer(first, config)
    for seed in (1, 2):
        give_gradients(first, seed)
        optimizer.step(1e-2)
    other = new_optimizer(second, config)
    other.load_state(optimizer.state())
    for given, stepping in ((first, optimizer), (second, other)):
        give_gradients(given, 3)
        stepping.step(1e-2)
    for one, two in zip(first, second, strict=True):
        assert torch.equal(one, two)


def test_another_optimizers_state_is_refused(small_config: Callable[..., Config]) -> None:
    """A run that changes the optimizer cannot go on from its checkpoint, and says so."""
    from pathlib import Path

    from trainer.attempt import check_same

    saved = dump(small_config("optim.kind=muon"))
    plain = {key: _listed(value) for key, value in saved.items()}
    check_same(small_config("optim.kind=muon"), plain, Path("step-1"))
    with pytest.raises(ConfigError, match=r"optim.kind: step-1 holds the state of muon"):
        check_same(small_config(), plain, Path("step-1"))


def _listed(value: object) -> object:
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items()}
    return list(value) if isinstance(value, tuple) else value


def test_the_feed_forward_has_the_gradient_of_its_formula() -> None:
    """With and without recomputing, against autograd on the formula, in float64."""
    generator = torch.Generator().manual_seed(6)
    sizes = ((5, 4), (5, 4), (12, 4), (4, 6))
    inputs = [torch.randn(size, generator=generator, dtype=torch.float64) for size in sizes]
    results = []
    for form in ("formula", "kept", "recomputed"):
        x, z, gate_up, down = (t.clone().requires_grad_() for t in inputs)
        if form == "formula":
            gate, up = (z @ gate_up.T).chunk(2, dim=-1)
            out = x + (torch.nn.functional.silu(gate) * up) @ down.T
        else:
            out = feed_forward(x, z, gate_up, down, recompute=form == "recomputed")
        out.square().sum().backward()
        results.append([out.detach(), *(t.grad for t in (x, z, gate_up, down))])
    for other in results[1:]:
        torch.testing.assert_close(other, results[0], rtol=1e-10, atol=1e-12)

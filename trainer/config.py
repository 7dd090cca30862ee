"""What a run is asked to do: every key, its default and its limits, as frozen values.

configfile.py reads them from TOML. Nobody re-checks a value after this. It imports no torch and
opens no file.
"""

from dataclasses import dataclass, field


class ConfigError(ValueError):
    """A key or value that cannot be used; its text names the file (or --set) and the key."""


def _require(good: bool, key: str, wanted: str) -> None:
    if not good:
        raise ValueError(f"{key}: {wanted}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetConfig:
    """The frozen model whose answers the drafter learns to predict."""

    path: str = "builtin"
    """`builtin`, a .pt written by pretrain-target, or a Hugging Face model folder."""
    features: int = 0
    """How many target layers feed the drafter; 0: as many as the drafter has layers."""
    feature_layers: tuple[int, ...] = ()
    """Explicit layers instead of the evenly spread ones, counted from 0."""
    feature_files: str = ""
    """A folder that keeps the features, made there once; empty: they are made as they are used."""

    def __post_init__(self) -> None:
        _require(self.features >= 0, "features", "must be 0 or more")
        _require(
            all(layer >= 0 for layer in self.feature_layers)
            and len(set(self.feature_layers)) == len(self.feature_layers),
            "feature_layers",
            "must be distinct layers, counted from 0",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterConfig:
    """The trained model; widths and heads are the target's."""

    layers: int = 2
    block: int = 8
    """Slots in a block: the anchor and block - 1 drafted tokens."""
    window: int = 0
    """Sliding attention over this many positions, causal in the block; 0: everything."""
    mask_token: int = -1
    """Row of the embedding that stands for a token not known yet; -1: the target's unused one."""
    ffn: int = 0
    """Width of the feed-forward part; 0: the target's."""

    def __post_init__(self) -> None:
        _require(self.layers >= 1, "layers", "must be 1 or more")
        _require(self.block >= 2, "block", "must be 2 or more: an anchor and one drafted token")
        _require(self.window >= 0, "window", "must be 0 (off) or more")
        _require(self.ffn >= 0, "ffn", "must be 0 (the target's) or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusConfig:
    """Where prompts come from and how answers are made and packed."""

    source: str = "stdlib"
    """`stdlib` (Python's own sources), or a text or .jsonl file or a folder of them."""
    samples: int = 256
    eval_samples: int = 8
    prompt_tokens: int = 64
    """Length of a prompt cut from text; the most that a conversation's may have."""
    answer_tokens: int = 128
    temperature: float = 0.7
    """Sampling temperature of the target's answers; 0: greedy."""
    thinking: bool = False
    """Given to the chat template as enable_thinking; must be as it will be served."""
    row_tokens: int = 512
    """Length of a packed row."""
    anchors: int = 32
    """Blocks for each document and step, drawn without replacement."""
    row_anchors: int = 96
    """Block slots of a row; documents are packed so that each gets its anchors."""

    def __post_init__(self) -> None:
        for key in ("samples", "eval_samples", "prompt_tokens", "anchors"):
            _require(getattr(self, key) >= 1, key, "must be 1 or more")
        _require(self.answer_tokens >= 2, "answer_tokens", "must be 2 or more")
        _require(self.temperature >= 0, "temperature", "must be 0 (greedy) or more")
        longest = self.prompt_tokens + self.answer_tokens
        _require(
            self.row_tokens >= longest,
            "row_tokens",
            f"must hold a prompt and its answer, {longest} tokens",
        )
        _require(self.row_anchors >= self.anchors, "row_anchors", "must be anchors or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class LossConfig:
    """How the slots of a block are weighed."""

    kind: str = "decay"
    """`decay`: exp(-(j-1)/gamma); `dpace`: by the drafter's own confidence so far."""
    gamma: float = 4.0
    alpha: float = 0.5
    chunk_rows: int = 2048
    """Supervised positions whose logits are live at once."""

    def __post_init__(self) -> None:
        _require(self.kind in ("decay", "dpace"), "kind", "must be decay or dpace")
        _require(self.gamma > 0, "gamma", "must be above 0")
        _require(0 <= self.alpha < 1, "alpha", "must be from 0 to below 1")
        _require(self.chunk_rows >= 1, "chunk_rows", "must be 1 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimConfig:
    """Linear warm-up, and a cosine to a tenth."""

    kind: str = "adamw"
    """`adamw`, or `muon`: matrices by Muon at the same rate, the rest by AdamW."""
    lr: float = 6e-4
    warmup: float = 0.04
    """Share of total_steps."""
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-8
    clip: float = 1.0
    rows: int = 1
    """Packed rows in a batch, on each rank."""
    accumulate: int = 1
    recompute: bool = False
    """Keep fewer activations of the feed-forward: less memory, a ninth more arithmetic."""

    def __post_init__(self) -> None:
        _require(self.kind in ("adamw", "muon"), "kind", "must be adamw or muon")
        _require(self.lr > 0, "lr", "must be above 0")
        _require(0 <= self.warmup < 1, "warmup", "must be from 0 to below 1")
        _require(self.clip > 0, "clip", "must be above 0")
        _require(0 <= self.beta1 < 1, "beta1", "must be from 0 to below 1")
        _require(0 <= self.beta2 < 1, "beta2", "must be from 0 to below 1")
        _require(self.rows >= 1, "rows", "must be 1 or more")
        _require(self.accumulate >= 1, "accumulate", "must be 1 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointConfig:
    """How often a run is saved and how many saves stay."""

    every: int = 500
    keep: int = 3

    def __post_init__(self) -> None:
        _require(self.every >= 1, "every", "must be 1 or more")
        _require(self.keep >= 1, "keep", "must be 1 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutConfig:
    """Processes of each host, one a GPU."""

    targets: int = 0
    """Those that only run the target; 0: each drafter has the target beside it."""
    drafters: int = 1
    target_hosts: int = 0
    """The first so many hosts run targets only, and the others drafters only; 0: all are alike."""
    slots: int = 3
    """Batches of features that may wait for each drafter."""

    def __post_init__(self) -> None:
        _require(0 <= self.targets <= 64, "targets", "must be 0 to 64")
        _require(self.drafters >= 1, "drafters", "must be 1 or more")
        _require(
            self.target_hosts == 0 or (self.target_hosts > 0 and self.targets > 0),
            "target_hosts",
            "must be 0, or a number of hosts with layout.targets on each",
        )
        _require(
            self.targets * max(1, self.target_hosts) <= 200, "targets", "must be 200 in all or less"
        )
        # Words READY to SHARES of a ring's header (ring.py): one for each slot.
        _require(1 <= self.slots <= 62, "slots", "must be 1 to 62")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """One run."""

    total_steps: int = 1000
    checkpoint_dir: str = ""
    """Empty: $ORCH_RUN_DIR/checkpoints, without that variable runs/<time>."""
    seed: int = 1
    device: str = "auto"
    """`auto`, `cpu` or `cuda`."""
    compile: str = "auto"
    """`auto` (inductor on CUDA, nothing on CPU), `off`, or a backend of torch.compile."""
    peak_tflops: float = 790.0
    """What MFU is a share of: the device's dense bfloat16 rate; an H200's as measured."""
    threads: int = 0
    """CPU threads of torch; 0: its own choice, of several processes on a host a share each."""
    log_every: int = 10
    eval_every: int = 100
    target: TargetConfig = field(default_factory=TargetConfig)
    drafter: DrafterConfig = field(default_factory=DrafterConfig)
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    layout: LayoutConfig = field(default_factory=LayoutConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)

    def __post_init__(self) -> None:
        _require(self.total_steps >= 1, "total_steps", "must be 1 or more")
        _require(self.seed >= 0, "seed", "must be 0 or more")
        _require(self.device in ("auto", "cpu", "cuda"), "device", "must be auto, cpu or cuda")
        _require(
            self.compile in ("auto", "off", "inductor", "aot_eager", "eager"),
            "compile",
            "must be auto, off, inductor, aot_eager or eager",
        )
        _require(
            not (self.target.feature_files and self.layout.targets),
            "target.feature_files",
            "needs layout.targets = 0: nothing is left for them to do",
        )
        _require(self.peak_tflops > 0, "peak_tflops", "must be above 0")
        _require(self.threads >= 0, "threads", "must be 0 (a share of the cores) or more")
        _require(self.log_every >= 1, "log_every", "must be 1 or more")
        _require(self.eval_every >= 1, "eval_every", "must be 1 or more")

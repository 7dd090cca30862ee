"""What a run is asked to do: frozen values, read from TOML and refused at the door.

It owns every key, its default and its limits. It imports no torch, opens only the one
file it is given, and nobody re-checks a value after it.
"""

import dataclasses
import difflib
import tomllib
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path


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
    """AdamW with linear warm-up and a cosine to a tenth."""

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

    def __post_init__(self) -> None:
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
    slots: int = 3
    """Batches of features that may wait for each drafter."""

    def __post_init__(self) -> None:
        _require(0 <= self.targets <= 64, "targets", "must be 0 to 64")
        _require(self.drafters >= 1, "drafters", "must be 1 or more")
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
    """CPU threads of torch; 0: its own choice."""
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
        _require(self.peak_tflops > 0, "peak_tflops", "must be above 0")
        _require(self.threads >= 0, "threads", "must be 0 (torch's choice) or more")
        _require(self.log_every >= 1, "log_every", "must be 1 or more")
        _require(self.eval_every >= 1, "eval_every", "must be 1 or more")


def load(path: Path, settings: tuple[str, ...] = ()) -> Config:
    """Read `path`, lay the `key=value` settings over it, and check all of it.

    Raises ConfigError, which names the file or the setting, and the key.
    """
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read ({error.strerror}); give --config a file"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not TOML: {error}") from error
    origin: dict[str, str] = {}
    for setting in settings:
        _lay_over(tree, setting, origin)
    return typing.cast(Config, _build(Config, tree, "", str(path), origin))


def dump(config: object) -> dict[str, object]:
    """The whole configuration as plain values, to be saved beside a checkpoint."""
    return dataclasses.asdict(typing.cast(Config, config))


def from_saved(tree: dict[str, object]) -> Config:
    """A configuration as `dump` gave it and a checkpoint keeps it. Raises ConfigError."""
    return typing.cast(Config, _build(Config, tree, "", "the checkpoint's config.json", {}))


def _lay_over(tree: dict[str, object], setting: str, origin: dict[str, str]) -> None:
    key, equals, text = setting.partition("=")
    key = key.strip()
    if not equals or not key:
        raise ConfigError(f"--set {setting}: must be key=value")
    branch = tree
    *parents, leaf = key.split(".")
    for parent in parents:
        below = branch.setdefault(parent, {})
        if not isinstance(below, dict):
            raise ConfigError(f"--set {setting}: {key}: {parent} is a value, not a section")
        branch = below
    branch[leaf] = _value_of(text.strip())
    origin[key] = f"--set {setting}"


def _value_of(text: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _build(
    kind: type, tree: dict[str, object], prefix: str, path: str, origin: dict[str, str]
) -> object:
    hints = typing.get_type_hints(kind)
    values: dict[str, object] = {}
    for name, value in tree.items():
        key = prefix + name
        where = origin.get(key, path)
        if name not in hints:
            near = difflib.get_close_matches(name, hints, n=1)
            hint = f"the nearest is {prefix}{near[0]}" if near else f"known are {', '.join(hints)}"
            raise ConfigError(f"{where}: {key}: unknown key; {hint}")
        hint_type = hints[name]
        if dataclasses.is_dataclass(hint_type):
            if not isinstance(value, dict):
                raise ConfigError(f"{where}: {key}: is a section of keys, not a value")
            values[name] = _build(typing.cast(type, hint_type), value, key + ".", path, origin)
        else:
            values[name] = _checked(value, hint_type, f"{where}: {key}")
    try:
        return kind(**values)
    except ValueError as error:
        key = prefix + str(error).partition(":")[0]
        raise ConfigError(f"{origin.get(key, path)}: {prefix}{error}") from error


def _checked(value: object, wanted: object, where: str) -> object:
    if isinstance(wanted, types.GenericAlias):
        if isinstance(value, list) and all(type(item) is int for item in value):
            return tuple(value)
        raise ConfigError(f"{where}: must be a list of whole numbers, not {value!r}")
    if wanted is float and type(value) is int:
        return float(value)
    if type(value) is not wanted:
        words = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}
        raise ConfigError(f"{where}: must be {words[typing.cast(type, wanted)]}, not {value!r}")
    return value

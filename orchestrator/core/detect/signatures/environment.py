"""Signatures of the environment: imports, files, disks, hubs."""

from orchestrator.core.detect.signatures.model import Signature, signature

SERIALIZATION = (
    r"torch/serialization\.py:",
    r"_weights_only_unpickler\.py:",
    r"safetensors/",
    r"checkpoint/(?:filesystem|default_planner|state_dict_loader|_fsspec)\w*\.py:",
    r":(?:load_checkpoint|load_state_dict|_load_checkpoint|resume_from_checkpoint|torch_load|load_ckpt|restore_checkpoint)$",
)

SIGNATURES: tuple[Signature, ...] = (
    signature(
        id="disk_full",
        title="The disk is full, or a quota is",
        cause=(
            "A write found no room left on its file system. A checkpoint written at that moment is torn."
        ),
        next_steps=(
            "Free space or raise the quota, then check the newest checkpoint before resuming.",
            "Write checkpoints to a temporary name and rename; keep fewer of them.",
        ),
        references=("https://github.com/pytorch/pytorch/issues/10577",),
        says=(
            r"No space left on device",
            r"Disk quota exceeded",
            r"PytorchStreamWriter failed writing",
            r"unexpected pos \d+ vs \d+",
            r"basic_ios::clear: iostream error",
            r"\d+ requested and \d+ written",
            r"os error 28\b",
            r"\[Errno 28\]",
            r"\[Errno 122\]",
            r"ENOSPC",
            r"No usable temporary directory found",
            r"database or disk is full",
        ),
        lines=(
            r"^\S+: (?:write error|cannot (?:create|write).{0,200}): No space left on device",
            r"No space left on device$",
        ),
    ),
    signature(
        id="checkpoint_corrupt",
        title="A checkpoint cannot be read, or does not fit the model",
        cause=(
            "The file is torn, empty, of another format, or its tensors do not fit this model. A run that"
            " died while saving leaves such a file behind."
        ),
        next_steps=(
            "Load the checkpoint before it, and look at the file's size.",
            "Size mismatch or missing keys: the code or configuration changed since it was written.",
            "Weights only load failed: allowlist the class, or weights_only=False for a file you trust.",
        ),
        references=("https://github.com/hiyouga/LlamaFactory/issues/1223",),
        types=(r"SafetensorError", r"UnpicklingError", r"CheckpointException"),
        says=(
            r"PytorchStreamReader failed",
            r"failed finding central directory",
            r"invalid load key",
            r"Weights only load failed",
            r"WeightsUnpickler error",
            r"Error while deserializing header",
            r"(?:MetadataIncompleteBuffer|HeaderTooLarge|HeaderTooSmall|InvalidHeader)",
            r"Error\(s\) in loading state_dict",
            r"size mismatch for \S+: copying a param",
            r"[Uu]nexpected key\(s\) in state_dict",
            r"[Mm]issing key\(s\) in state_dict",
            r"Ran out of input",
            r"pickle data was truncated",
            r"File is not a zip file",
            r"corrupt(?:ed)? (?:checkpoint|zip|archive|file)",
            r"[Cc]heckpoint.{0,80}(?:is |seems |appears )?(?:corrupt|truncated|incomplete|damaged)",
            r"unexpected EOF, expected \d+ more bytes",
            r"Invalid magic number; corrupt file",
            r"storage has wrong (?:byte )?size",
            r"Unable to load weights from .{0,200}checkpoint",
            r"loaded state dict (?:has|contains) ",
            r"Missing key in checkpoint state_dict",
        ),
        rests=(
            r"^\s+size mismatch for \S+: copying a param with shape ",
            r"^\s+(?:Missing|Unexpected) key\(s\) in state_dict: ",
        ),
    ),
    signature(
        id="checkpoint_corrupt",
        title="A checkpoint cannot be read, or does not fit the model",
        cause=(
            "Reading a checkpoint failed in the middle: the file is empty, torn or of another format. A"
            " run that died while saving leaves such a file behind."
        ),
        next_steps=(
            "Load the checkpoint before it, and look at the file's size.",
            "Save to a temporary name and rename, so that a torn file is never the newest.",
        ),
        references=("https://github.com/hiyouga/LlamaFactory/issues/1223",),
        types=(r"EOFError", r"BadZipFile"),
        says=(
            r"OSError: \[Errno 22\] Invalid argument",
            r"RuntimeError: \[enforce fail",
            r"KeyError: 'storages?'",
        ),
        frames=SERIALIZATION,
    ),
    signature(
        id="import_error",
        title="A module or shared library could not be imported",
        cause=(
            "A package is missing, half imported, or was built for another torch, CUDA or Python. A later"
            " install of another package often changed the environment."
        ),
        next_steps=(
            "Compare the environment with the last good run's (`orch diff RUN`).",
            "undefined symbol: reinstall the extension for this torch (pip install --no-build-isolation).",
            "Missing module: add it to the requirements; do not install it by hand.",
        ),
        references=(
            "https://github.com/Dao-AILab/flash-attention/issues/723",
            "https://github.com/sgl-project/sglang/issues/851",
        ),
        types=(r"ModuleNotFoundError", r"ImportError", r"PackageNotFoundError"),
        says=(
            r"undefined symbol: ",
            r"cannot open shared object file",
            r"partially initialized module",
            r"No module named ",
            r"cannot import name ",
            r"version `(?:GLIBC|GLIBCXX|CXXABI)\w*_[\d.]+' not found",
            r"was compiled using NumPy 1\.x cannot be run",
            r"numpy\.(?:dtype|ndarray) size changed, may indicate binary incompatibility",
            r"DLL load failed",
            r"Error while finding module specification for",
        ),
        lines=(
            r"^\S*python[\d.]*: No module named ",
            r"^\S+: /\S+: version `(?:GLIBC|GLIBCXX|CXXABI)\w*_[\d.]+' not found",
            r"^\S*python[\d.]*: Error while finding module",
        ),
        ends="process",
    ),
    signature(
        id="hub_or_dataset_error",
        title="A model, dataset or shard could not be had",
        cause=(
            "A download failed, the repository does not exist or asks for a token, or a shard is missing."
        ),
        next_steps=(
            "Try the download by hand from that machine; check HF_TOKEN and the name.",
            "Fetch once into a shared cache, and train with HF_HUB_OFFLINE=1.",
        ),
        transient=True,
        types=(
            r"RepositoryNotFoundError",
            r"GatedRepoError",
            r"RevisionNotFoundError",
            r"EntryNotFoundError",
            r"LocalEntryNotFoundError",
            r"HfHubHTTPError",
            r"HTTPError",
            r"OfflineModeIsEnabled",
            r"DatasetNotFoundError",
            r"DatasetGenerationError",
            r"DataFilesNotFoundError",
            r"NonMatchingSplitsSizesError",
            r"ClientConnectorError",
            r"MaxRetryError",
            r"URLError",
            r"ReadTimeoutError",
            r"requests\.exceptions\.\w+",
            r"botocore\.exceptions\.\w+",
            r"httpx\.\w+",
            r"urllib3\.exceptions\.\w+",
            r"HFValidationError",
            r"EmptyDatasetError",
        ),
        says=(
            r"couldn'?t connect to (?:'?https?|the Hub|huggingface)",
            r"\b(?:HTTPSConnectionPool|HTTPConnectionPool)\(",
            r"\b[45]\d\d Client Error|\b5\d\d Server Error",
            r"is not a local folder and is not a valid model identifier",
            r"Repo id must (?:be in the form|use alphanumeric chars)",
            r"is not a valid model identifier",
            r"You are trying to access a gated repo",
            r"Couldn't find (?:a dataset script|any data file|'|file)",
            r"[Dd]ataset .{0,120}(?:doesn't exist|does not exist|not found) on the Hub",
            r"Can't load (?:tokenizer|the (?:model|configuration)|config|feature extractor) for",
            r"does not appear to have a file named",
            r"Temporary failure in name resolution",
            r"(?:shard|dataset|tokenizer|arrow|parquet|webdataset|\.tar|\.jsonl).{0,160}(?:No such file|not found|missing)",
            r"(?:No such file or directory|FileNotFoundError).{0,200}(?:shard|dataset|tokenizer|\.arrow|\.parquet|\.tar\b|\.jsonl|\.bin\b|\.idx\b)",
            r"An error occurred while generating the dataset",
            r"ArrowInvalid|Parquet magic bytes not found",
        ),
    ),
)

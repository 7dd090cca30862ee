"""A target's words: bytes for the built-in one, a tokenizer's for a Hugging Face folder.

It owns encoding, decoding and chat templates. It imports tokenizers and jinja2 only where
a folder needs them (requirements-hf.txt).
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

Messages = Sequence[dict[str, str]]
"""A conversation: objects with `role` and `content`."""


class WordsError(ValueError):
    """Words that cannot be used; its text names the path and the remedy."""


class Words(Protocol):
    """Text to tokens and back."""

    def encode(self, text: str) -> list[int]:
        """Tokens of `text`, without any that mark begin or end."""

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of `tokens`, broken characters replaced."""

    def chat(self, messages: Messages, *, thinking: bool) -> list[int]:
        """Tokens of a conversation up to where the answer starts. Raises WordsError."""


class ByteWords:
    """Bytes, and nothing else."""

    def encode(self, text: str) -> list[int]:
        """The bytes of `text`."""
        return list(text.encode())

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of the bytes among `tokens`."""
        return bytes(token for token in tokens if token < 256).decode(errors="replace")

    def chat(self, messages: Messages, *, thinking: bool) -> list[int]:
        """Refused: the byte-level target knows no conversations."""
        del messages, thinking
        raise WordsError(
            "corpus.source: holds `messages`, but the byte-level target has no chat template; "
            "give lines with `text`, or a Hugging Face folder as target.path"
        )


class FolderWords:
    """The tokenizer and the chat template of a Hugging Face folder."""

    def __init__(self, folder: Path) -> None:
        tokenizers = _wanted("tokenizers")
        file = folder / "tokenizer.json"
        if not file.is_file():
            raise WordsError(f"target.path: {file}: no such file; a fast tokenizer is needed")
        self._folder = folder
        self._tokenizer = tokenizers.Tokenizer.from_file(str(file))
        config = folder / "tokenizer_config.json"
        self._config: dict[str, Any] = json.loads(config.read_text()) if config.is_file() else {}
        self._template: Any = None

    @property
    def size(self) -> int:
        """Tokens that the tokenizer knows: rows of the embedding from it on are unused."""
        vocabulary: dict[str, int] = self._tokenizer.get_vocab(with_added_tokens=True)
        return max(vocabulary.values()) + 1

    def encode(self, text: str) -> list[int]:
        """Tokens of `text`; names of special tokens in it become those tokens."""
        out: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return out

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of `tokens`, special ones included."""
        out: str = self._tokenizer.decode(list(tokens), skip_special_tokens=False)
        return out

    def chat(self, messages: Messages, *, thinking: bool) -> list[int]:
        """The conversation by the folder's own template, with the answer's opening."""
        if self._template is None:
            self._template = self._read_template()
        named = {
            key: value["content"] if isinstance(value, dict) else value
            for key, value in self._config.items()
            if key.endswith("_token")
        }
        try:
            text = self._template.render(
                messages=list(messages), add_generation_prompt=True, enable_thinking=thinking,
                **named,
            )  # fmt: skip
        except Exception as error:
            raise WordsError(
                f"target.path: {self._folder}: its chat template refused a conversation of "
                f"corpus.source: {error}"
            ) from error
        return self.encode(text)

    def _read_template(self) -> Any:
        sandbox = _wanted("jinja2.sandbox")
        file = self._folder / "chat_template.jinja"
        text = file.read_text() if file.is_file() else self._config.get("chat_template")
        if not isinstance(text, str):
            raise WordsError(
                f"target.path: {self._folder}: has no chat template (chat_template.jinja or "
                "chat_template in tokenizer_config.json), but corpus.source holds `messages`"
            )
        # The dialect that these templates are written for.
        environment = sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = lambda value, **options: json.dumps(
            value, ensure_ascii=False, **options
        )
        environment.globals["raise_exception"] = _refuse
        return environment.from_string(text)


def _refuse(message: str) -> None:
    raise ValueError(message)


def _wanted(module: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise WordsError(
            f"target.path: a Hugging Face folder needs {module.partition('.')[0]}: "
            "pip install -r trainer/requirements-hf.txt"
        ) from error

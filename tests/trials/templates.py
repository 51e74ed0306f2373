"""Chat templates of well-known models, reduced to what they write around messages.

A tokenizer of their own: a special token is one id, so is a line break, so is a word.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Message = tuple[str, str, str]
"""(role, thinking, text); only an assistant's has thinking."""

_TOKENS = re.compile(r"<[^<>\s]+>|\[/?INST\]|\n+|[^\s<\[]+")


def ids_of(text: str, known: dict[str, int]) -> list[int]:
    return [known.setdefault(token, len(known) + 10) for token in _TOKENS.findall(text)]


@dataclass(frozen=True)
class Template:
    """`turn` writes a message of the history, `header` is what the answer to come begins with."""

    turn: Callable[[Message], str]
    header: str
    answer: Callable[[str, str], str]
    """What a model samples after the header: from its thinking and its text."""
    start: str = ""
    keeps: bool = False
    """Whether thinking is kept after the last message of the user, where tools answer."""

    def prompt(self, messages: Sequence[Message]) -> str:
        last = max((k for k, m in enumerate(messages) if m[0] == "user"), default=-1)
        kept = [self.keeps and k > last and m[0] == "assistant" for k, m in enumerate(messages)]
        turns = [
            f"{self.header}{self.answer(m[1], m[2])}\n" if keep else self.turn(m)
            for m, keep in zip(messages, kept, strict=True)
        ]
        return self.start + "".join(turns) + self.header


def _bare(thinking: str, text: str) -> str:
    return text


def _in_role(form: str, assistant: str = "assistant") -> Callable[[Message], str]:
    """Every role is written alike, and thinking is dropped."""
    return lambda m: form.format(role=assistant if m[0] == "assistant" else m[0], text=m[2])


_chatml = _in_role("<|im_start|>{role}\n{text}<|im_end|>\n")


def _by_role(**forms: str) -> Callable[[Message], str]:
    return lambda m: forms[m[0]].format(text=m[2], thinking=m[1])


TEMPLATES = {
    "chatml": Template(_chatml, "<|im_start|>assistant\n", lambda _, x: f"{x}<|im_end|>"),
    "chatml, end not sampled": Template(_chatml, "<|im_start|>assistant\n", _bare),
    "llama 3": Template(
        _in_role("<|start_header_id|>{role}<|end_header_id|>\n\n{text}<|eot_id|>"),
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        lambda _, x: f"{x}<|eot_id|>",
        "<|begin_of_text|>",
    ),
    "gemma": Template(
        _in_role("<start_of_turn>{role}\n{text}<end_of_turn>\n", "model"),
        "<start_of_turn>model\n",
        lambda _, x: f"{x}<end_of_turn>",
        "<bos>",
    ),
    "qwen 3": Template(
        _chatml,
        "<|im_start|>assistant\n",
        lambda t, x: f"<think>\n{t}\n</think>\n\n{x}<|im_end|>",
    ),
    "qwen 3, no thinking": Template(
        _chatml,
        "<|im_start|>assistant\n<think>\n\n</think>\n\n",
        lambda _, x: f"{x}<|im_end|>",
    ),
    "qwen 3 thinking": Template(
        _chatml,
        "<|im_start|>assistant\n<think>\n",
        lambda t, x: f"{t}\n</think>\n\n{x}<|im_end|>",
    ),
    "qwen 3 thinking, tools": Template(
        _chatml,
        "<|im_start|>assistant\n<think>\n",
        lambda t, x: f"{t}\n</think>\n\n{x}<|im_end|>",
        keeps=True,
    ),
    "nemotron": Template(
        _by_role(
            system="<SPECIAL_10>System\n{text}\n",
            user="<SPECIAL_11>User\n{text}\n",
            assistant="<SPECIAL_11>Assistant\n{text}\n<SPECIAL_12>\n",
        ),
        "<SPECIAL_11>Assistant\n<think>\n",
        lambda t, x: f"{t}\n</think>\n\n{x}\n<SPECIAL_12>",
    ),
    "harmony": Template(
        _by_role(
            system="<|start|>system<|message|>{text}<|end|>",
            user="<|start|>user<|message|>{text}<|end|>",
            assistant="<|start|>assistant<|channel|>final<|message|>{text}<|end|>",
        ),
        "<|start|>assistant",
        lambda t, x: (
            f"<|channel|>analysis<|message|>{t}<|end|><|start|>assistant"
            f"<|channel|>final<|message|>{x}<|return|>"
        ),
    ),
    "glm 4.5, no thinking": Template(
        _by_role(
            system="<|system|>\n{text}",
            user="<|user|>\n{text}",
            assistant="<|assistant|>\n<think></think>\n{text}",
        ),
        "<|assistant|>\n<think></think>",
        lambda _, x: f"\n{x}<|user|>",
        "<gMASK><sop>",
    ),
    "deepseek r1": Template(
        _by_role(
            system="{text}",
            user="<|User|>{text}",
            assistant="<|Assistant|>{text}<|end_of_sentence|>",
        ),
        "<|Assistant|><think>\n",
        lambda t, x: f"{t}\n</think>\n\n{x}<|end_of_sentence|>",
        "<|begin_of_sentence|>",
    ),
    "mistral": Template(
        _by_role(system="", user="[INST]{text}[/INST]", assistant="{text}</s>"),
        "",
        lambda _, x: f"{x}</s>",
        "<s>",
    ),
}

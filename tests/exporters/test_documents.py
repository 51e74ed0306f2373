"""docs/trainers.md is true: each example runs, and its trainer sees the export's trained tokens.

Examples whose trainer is not installed are skipped; `make test-trainers` installs them.
"""

import importlib
import re
import sys
from dataclasses import make_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import wmo_distill
from tests.proof.chats import Turn, dataset, record
from wmo_distill.datums.options import DatumOptions
from wmo_distill.datums.shards import build_datum_shards
from wmo_distill.exporters.messages import FORMS, export_messages
from wmo_distill.exporters.registry import TARGETS
from wmo_distill.exporters.run import export_datums

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs/trainers.md").read_text()
VOCABULARY = 64
PAD, END = 62, 63
NEEDS: dict[str, tuple[str, ...]] = {
    "tinker": ("tinker",),
    "tinker-sft": ("tinker",),
    "prime-rl": (),
    "slime": ("torch",),
    "trl-sft": ("trl", "datasets"),
    "trl-grpo": ("trl", "datasets"),
    "verl": ("verl.protocol",),
    "skyrl": ("skyrl.train.generators.base",),
    "nemo-rl": ("torch",),
    "areal": ("areal.utils.data",),
    "areal-sft": ("areal.utils.data",),
    "messages": ("trl", "datasets"),
    "sharegpt": (),
    "PyTorch": ("torch",),
}
"""What an example imports that is not ours."""


def sections() -> dict[str, str]:
    """The text under each heading of a target."""
    pieces = re.split(r"^## (\S+)\n", DOCUMENT, flags=re.MULTILINE)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def python(text: str) -> str:
    (block,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return str(block)


def opening() -> str:
    (block,) = re.findall(r"^```python rows\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)
    return str(block)


def long_chat(rng: np.random.Generator, turns: int, tokens: int) -> list[Turn]:
    """Turns that extend each other; the sampled text ends with END."""
    history = rng.integers(0, PAD, 10).tolist()
    found = []
    for _ in range(turns):
        sampled = [*rng.integers(0, PAD, tokens - 1).tolist(), END]
        logprobs = (-rng.exponential(1.0, tokens)).tolist()
        found.append(Turn(list(history), sampled, logprobs))
        history = [*history, *sampled, *rng.integers(0, PAD, 4).tolist()]
    return found


@pytest.fixture(scope="module")
def datums(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three groups of four, one sequence an episode, one in four longer than 1024 tokens."""
    place = tmp_path_factory.mktemp("documents")
    rng = np.random.default_rng(0)
    records = [record(long_chat(rng, 3, 400 if n % 4 == 3 else 12), n) for n in range(12)]
    source = dataset(place / "shards", records)
    build_datum_shards(source, place / "rl", DatumOptions(advantages="centered"))
    build_datum_shards(source, place / "sft", DatumOptions(purpose="sft"))
    return place


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of the real trials, whose trajectories hold chats."""
    place = tmp_path_factory.mktemp("chats")
    wmo_distill.build([ROOT / "fixtures/trials"], place / "shards", workers=1)
    return place / "shards"


def export(target: str, datums: Path, request: pytest.FixtureRequest) -> int:
    """Write `rows` or `datums` in the working directory; give the number that must come out."""
    if target in FORMS:
        return export_messages(request.getfixturevalue("trials"), "rows", target).replies
    if target == "PyTorch":
        Path("datums").symlink_to(datums / "rl")
        return export_datums(datums / "rl", "rows", "tinker").loss_tokens
    purpose = TARGETS[target].purpose
    summary = export_datums(datums / purpose, "rows", target)
    assert summary.lost_first_tokens == 0
    assert not summary.refused
    return summary.loss_tokens


def test_every_target_has_its_lines() -> None:
    assert set(sections()) == set(NEEDS) == {*TARGETS, *FORMS, "PyTorch"}
    rows = DOCUMENT.split("| --- | --- | --- |\n")[1].split("\n\n")[0].splitlines()
    named = {name for row in rows for name in row.split("|")[1].replace(" ", "").split(",")}
    assert named == set(NEEDS) - {"tinker", "tinker-sft"}, "nothing is cut there"
    for name, text in sections().items():
        assert len(python(text).splitlines()) <= 32, name


@pytest.mark.parametrize("target", NEEDS)
def test_an_example_counts_what_was_exported(
    target: str,
    datums: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    for name in NEEDS[target]:
        pytest.importorskip(name, reason="`make test-trainers` installs it, where it can be")
    monkeypatch.chdir(tmp_path)
    if target == "prime-rl":
        stand_in_for_prime_rl(monkeypatch)
    wanted = export(target, datums, request)
    found = run(target)
    if target == "trl-grpo":
        found["trained"] = tokens_of_grpo(found["trainer"])
    assert found["replies" if target in FORMS else "trained"] == wanted > 0


def run(target: str, change: tuple[str, str] = ("", "")) -> dict[str, Any]:
    """The names of an example after it ran, with a model and a tokenizer where it has them."""
    code = python(sections()[target])
    assert change[0] in code
    # TRL's default is bf16 on a GPU.
    code = code.replace('report_to="none"', 'report_to="none", use_cpu=True, bf16=False')
    namespace: dict[str, Any] = {}
    if "tokenizer" in code or "model," in code:
        namespace["tokenizer"] = tokenizer()
        namespace["model"] = model()
    exec(opening(), namespace)
    exec(code.replace(*change) if change[0] else code, namespace)
    return namespace


@pytest.mark.parametrize(
    ("target", "change"),
    [
        ("trl-sft", ("max_length=None,", "")),
        ("trl-sft", ("max_length=None,\n    packing=False", "max_length=512,\n    packing=False")),
        ("messages", ("max_length=None,", "")),
    ],
)
def test_the_count_sees_what_the_setting_prevents(
    target: str,
    change: tuple[str, str],
    datums: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    pytest.importorskip("trl", reason="`make test-trainers` installs it")
    monkeypatch.chdir(tmp_path)
    wanted = export(target, datums, request)
    found = run(target, change)["replies" if target in FORMS else "trained"]
    assert 0 < found < wanted


def test_trl_packs_whole_sequences_up_to_its_length(
    datums: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    pytest.importorskip("trl", reason="`make test-trainers` installs it")
    monkeypatch.chdir(tmp_path)
    wanted = export("trl-sft", datums, request)
    for length, whole in ((1400, True), (1024, False)):
        change = ("max_length=None,\n    packing=False", f"max_length={length},\n    packing=True")
        assert (run("trl-sft", change)["trained"] == wanted) is whole


def test_trl_ignores_masks_next_to_labels(
    datums: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """So that a row has no column that looks as if it were used."""
    pytest.importorskip("trl", reason="`make test-trainers` installs it")
    monkeypatch.chdir(tmp_path)
    wanted = export("trl-sft", datums, request)
    load = 'split="train")'
    for names in ('["labels"]', "[]"):
        mask = (
            f"{load}.map(lambda row: {{'completion_mask': [0] * len(row['input_ids'])}})"
            f".remove_columns({names})"
        )
        trained = run("trl-sft", (load, mask))["trained"]
        # Without labels every token but the first is trained, whatever the mask says.
        assert trained == wanted if names == "[]" else trained > wanted


def stand_in_for_prime_rl(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two classes with the fields that its source documents, without their checks."""
    sample = make_dataclass(
        "TrainingSample",
        [(name, Any) for name in ("token_ids", "mask", "logprobs", "temperatures", "env_name")]
        + [
            (name, Any, None)  # type: ignore[list-item]
            for name in ("ref_logprobs", "routed_experts", "rl_weights", "ce_weights")
        ]
        + [("ref_kl_weights", Any, None), ("advantages", Any, None)],  # type: ignore[list-item]
    )
    name = "prime_rl.transports.rollouts.types"
    types = ModuleType(name)
    types.TrainingSample = sample  # type: ignore[attr-defined]
    types.RoutedExperts = dict  # type: ignore[attr-defined]
    for parent in ("prime_rl", "prime_rl.transports", "prime_rl.transports.rollouts"):
        monkeypatch.setitem(sys.modules, parent, ModuleType(parent))
    monkeypatch.setitem(sys.modules, name, types)


def tokens_of_grpo(trainer: Any) -> int:
    """Tokens in the loss of one epoch, of the rollouts that TRL itself asks for."""
    trainer.model.train()
    trained = 0
    rewards = set()
    for batch in trainer.get_train_dataloader():
        inputs = trainer._generate_and_score_completions(batch)
        trained += int((inputs["completion_mask"] * inputs["tool_mask"]).sum())
        rewards |= {row["reward"] for row in batch}
    assert rewards == {0.0, 1.0}
    return trained


def tokenizer() -> Any:
    """Words of one token each; a template that marks the replies that are to be trained."""
    from tokenizers import Regex, Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Split
    from transformers import PreTrainedTokenizerFast

    words = {f"w{n}": n for n in range(PAD)} | {"<pad>": PAD, "<end>": END}
    made = Tokenizer(WordLevel(words, unk_token="w0"))
    made.pre_tokenizer = Split(Regex(r"\s+"), "isolated")
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="<pad>",
        eos_token="<end>",
        unk_token="w0",
        chat_template=(
            "{% for m in messages %}w1 "
            "{% if m.role == 'assistant' and m.weight != 0 %}"
            "{% generation %}w2 {{ m.content }}<end>{% endgeneration %}"
            "{% else %}{{ m.content }}{% endif %}{% endfor %}"
        ),
    )


def model() -> Any:
    transformers = importlib.import_module("transformers")
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=VOCABULARY,
            n_layer=1,
            n_head=1,
            n_embd=8,
            n_positions=65536,
            pad_token_id=PAD,
            eos_token_id=END,
            bos_token_id=END,
        )
    )

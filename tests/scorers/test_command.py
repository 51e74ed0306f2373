"""The commands `score`, `datums --scores` and `check-logprobs`, as a user gives them."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from tests.proof.chats import chat, dataset, record
from tests.proof.lm import LanguageModel
from tests.proof.server import serve
from wmo_distill.cli.app import app
from wmo_distill.datums.dataset import iter_datums
from wmo_distill.errors import UsageError
from wmo_distill.scorers.advise import ACTIONS
from wmo_distill.scorers.cache import ScoreCache
from wmo_distill.scorers.options import Noise
from wmo_distill.scorers.tolerance import TOLERANCES
from wmo_distill.scorers.verdict import Verdict

STUDENT, TEACHER = LanguageModel(), LanguageModel(seed=4)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    dataset(tmp_path / "shards", [record(chat(STUDENT, rng), n) for n in range(6)])
    assert run("datums", tmp_path / "shards", "-o", tmp_path / "d", "-q").exit_code == 0
    return tmp_path


def test_score_then_datums(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "secret")
    plan = run(
        "score",
        place / "d",
        "-c",
        place / "c",
        "--model",
        "big",
        "--dry-run",
        "--price",
        1,
        "--json",
    )
    assert json.loads(plan.stdout)["requests"] == 6
    with serve(TEACHER) as server:
        done = run(
            "score", place / "d", "-c", place / "c", "--scorer", "vllm", "--url",
            f"{server.url}/v1/", "--model", "big", "--api-key-env", "KEY",
        )  # fmt: skip
        assert done.exit_code == 0, done.output
        assert re.search(r"scored +6  313 tokens\n", done.stdout)
        assert server.requests[0]["model"] == "big"
        assert server.headers[0]["authorization"] == "Bearer secret"
    made = run(
        "datums", place / "shards", "-o", place / "d2", "--scores", place / "c",
        "--teacher", "big", "--clip", 3, "--center", "--advantages", "centered",
    )  # fmt: skip
    assert made.exit_code == 0, made.output
    assert re.search(r"datums with its advantages +6\n", made.stdout)
    assert all(row.teacher == "big" for row in iter_datums(place / "d2"))


def test_requests_and_answers(place: Path) -> None:
    names = ("score", place / "d", "-c", place / "c", "--teacher", "t")
    assert run(*names, "--write-requests", place / "r").exit_code == 0
    answers = []
    for line in (place / "r").read_text().splitlines():
        request = json.loads(line)
        values = TEACHER.logprobs(request["token_ids"])[1:].tolist()
        answers.append({"datum_id": request["datum_id"], "logprobs": [None, *values]})
    (place / "a").write_text("\n".join(map(json.dumps, answers)))
    done = run(*names, "--read-answers", place / "a", "--json")
    assert json.loads(done.stdout)["scored"] == 6
    assert json.loads(run(*names, "--dry-run", "--json").stdout)["requests"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--teacher: expected the name"),
        (["--teacher", "t"], "expected one of --scorer"),
        (["--teacher", "t", "--scorer", "vllm", "--read-answers", "a"], "found 2"),
        (["--teacher", "t", "--scorer", "vlm"], "found 'vlm'"),
        (["--teacher", "t", "--scorer", "vllm"], "--model"),
        (["--model", "m", "--scorer", "vllm"], "--url: expected the server"),
        (
            ["--model", "m", "--scorer", "vllm", "--url", "http://x", "--api-key-env", "NO_SUCH"],
            "environment variable NO_SUCH",
        ),
    ],
)
def test_wrong_orders_are_reported_before_work(
    place: Path, arguments: list[str], message: str
) -> None:
    result = run("score", place / "d", "-c", place / "c", *arguments)
    assert isinstance(result.exception, UsageError)
    assert message in str(result.exception)
    assert not (place / "c").exists()


@pytest.mark.parametrize(
    ("variable", "key", "message"),
    [
        ("KEY", "sec-ret\n", "environment variable KEY, found others"),
        ("key", "ключ", "environment variable key, found others"),
        ("KEY", "", "environment variable KEY, found none"),
        # A key that was given where its variable's name belongs.
        ("sk-sec-ret", None, "environment variable of that name, found none"),
        ("hf_secret", None, "environment variable of that name, found none"),
    ],
)
def test_a_key_is_never_shown(
    place: Path, monkeypatch: pytest.MonkeyPatch, variable: str, key: str | None, message: str
) -> None:
    if key is not None:
        monkeypatch.setenv(variable, key)
    result = run(
        "score", place / "d", "-c", place / "c", "--model", "m", "--scorer", "vllm",
        "--url", "http://localhost", "--api-key-env", variable,
    )  # fmt: skip
    assert isinstance(result.exception, UsageError)
    said = str(result.exception)
    assert message in said
    assert not any(secret in said for secret in ("sec-ret", "ключ", "hf_secret"))


def test_check_logprobs(place: Path) -> None:
    with serve(STUDENT) as server:
        good = run("check-logprobs", place / "d", "--url", server.url, "--model", "s")
        assert good.exit_code == 0, good.output
        assert re.match(r"verdict +agrees: ", good.stdout)
        assert "cannot tell" in good.stdout
        assert "worst episodes" in good.stdout
    with serve(TEACHER) as server:
        bad = run(
            "check-logprobs", place / "d", "--scorer", "sglang", "--url", server.url, "--json"
        )
        assert bad.exit_code == 1
        assert json.loads(bad.stdout)["verdict"] == "tokenizer"


def test_what_was_rescored_is_kept(place: Path) -> None:
    with serve(STUDENT) as server:
        done = run(
            "check-logprobs", place / "d", "--url", server.url, "--model", "s",
            "--store", place / "kept", "--name", "step-7", "--json",
        )  # fmt: skip
    assert json.loads(done.stdout)["stored"] == 6
    kept = ScoreCache(place / "kept")
    assert kept.teachers() == {"step-7": 6}
    for row in iter_datums(place / "d"):
        values = kept.logprobs(row.datum_id, "step-7")
        assert values is not None
        ids = row.datum.token_ids.tolist()
        assert values[1:].tolist() == STUDENT.logprobs(ids)[1:].tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--noise", "int4"], "--noise: expected one of fp32, bf16, fp8, moe"),
        (["--name", "x"], "--name: expected --store too"),
        (["--scorer", "sglang", "--store", "k"], "--name: expected the name"),
    ],
)
def test_wrong_options_of_check_logprobs(place: Path, arguments: list[str], message: str) -> None:
    result = run("check-logprobs", place / "d", "--url", "http://x", *arguments)
    assert isinstance(result.exception, UsageError)
    assert message in str(result.exception)


def test_every_verdict_says_what_to_do() -> None:
    assert set(ACTIONS) == set(Verdict)
    assert set(TOLERANCES) == set(Noise)

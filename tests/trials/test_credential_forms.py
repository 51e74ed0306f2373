"""Honest text stays as it is, keys of known forms are cut, and no text takes the rules long."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from wmo_distill.credentials import CUT, without_credentials

ROOT = Path(__file__).parents[2]
HONEST = (
    "hf-model-inference__Ab3dEfG", "hf-internal-testing/tiny-random-gpt2",
    "sk-learn-classification-task", "sk-or-not-to-sk-learning-task1",
    "pk-fk-constraints-database-task", "npm-package-vulnerability-check",
    "pypi-server-package-build", "r8-compile-android-application",
    "hf_hub_download_failure_case", "npm_run_build_and_test_all",
    "glpat-rotation-documentation-page", "github_pat_rotation_documentation_x",
    "AKIACOMMONNAME2024", "ASIA2024CONFERENCE",
    "npm:react@18.2.0", "npm:react@18.2.0/index.js", "pip:numpy@1.26.0", "cargo:serde@1.0",
    "tinker://run:train:0/w@1", "model:8b@v1.2/ckpt", "10:30@monday/5", "latency:5ms@p99.9",
    "note:ping@example.com",
    "ssh://git@github.com/org/repo", "git+ssh://git@github.com/org/repo",
    "https://h/?keyword=abc1", "https://h/?a=1&design=abc1", "https://h/?monkey=abc1",
    "https://h/?signal=abc1", "https://h/issues?authors=bob",
    "Basic tutorial12345", "Basic Tutorial12345", "Authorization: Bearer authentication is used",
    "docker run -u 1000:1000 image", "curl -u $USER:$PASS https://h", "PGPASSWORD=$WORD psql",
    "token: the next word", "key=sortByCreatedAtDescending", "pwd=/home/user1/Project2/Dir",
    "=" + "?" * 20_000, "ha-" * 2_000, "a-" * 3_000, "=" * 6_000, "/" * 6_000,
)  # fmt: skip
X = "A1" + "aB3dE5fG7hI9jK1lM" * 10
HEX = "0a" * 32
KEYS = (
    f"sk-{X[:48]}", f"sk-{HEX}", f"sk-proj-{X[:40]}_{X[:40]}", f"sk-ant-api03-{X[:90]}-AA",
    f"sk-or-v1-{HEX}", f"sk_live_{X[:24]}", f"gsk_{X[:52]}", f"tml-{X[:40]}", f"nvapi-{X[:64]}",
    f"glpat-{X[:20]}", f"hf_{X[:34]}", f"npm_{X[:36]}", f"r8_{X[:37]}",
    f"pypi-AgEIcHlwaS5vcmc{X[:80]}", f"ghp_{X[:36]}", f"github_pat_{X[:22]}_{X[:59]}",
    f"xoxb-1234567890-{X[:20]}", "AKIAIOSFODNN7EXAMPLE", f"AIza{X[:35]}",
    "eyJhbGciOiJI.eyJzdWIi.abc", f"SG.{X[:22]}.{X[:43]}", f"whsec_{X[:32]}", f"dop_v1_{HEX}",
    f"hvs.{X[:90]}", f"ya29.{X[:100]}", f"123456789:AA{X[:33]}", f"xai-{X[:80]}",
    f"pplx-{X[:48]}", f"tgp_v1_{X[:43]}", "https://hooks.slack.com/services/T0/B0/xyz",
    "-----BEGIN PGP PRIVATE KEY BLOCK-----\nx\n-----END PGP PRIVATE KEY BLOCK-----",
)  # fmt: skip
VALUES = (
    ("session_token:", "abc123def", ""),
    ("Authorization: Basic ", "dXNlcjpwYXNzMTIz", ""),
    ('{"Authorization": "Bearer ', "abcdefghijklmnop", '"}'),
    ("token=", X[:20], " x"), ("key: ", X[:20], ""), ("pwd='", X[:20], "'"),
    ("PGPASSWORD=", "open", " psql"),
    ('"SecretAccessKey": "', "wJalrXUtnFEMI/K7MDENG", '"'),
    ("awsSecretAccessKey=", "wJalrXUtnFEMI7", ""),
    ("curl -s -u user:", "pass", " https://h"), ("curl --user 'user:", "pass", "' https://h"),
    ("", "user:pass", "@10.0.0.1:80/x"), ("redis://", ":pass", "@host:6379"),
    ("https://h/?X-Goog-Signature=", "9f", "&a=1"), ("https://h/?key=", "abc", ""),
)  # fmt: skip


@pytest.mark.parametrize("text", HONEST, ids=lambda text: text[:40])
def test_honest_text_is_kept(text: str) -> None:
    assert without_credentials(text) == text


def test_names_of_recorded_trials_are_kept() -> None:
    names = set()
    for file in sorted((ROOT / "fixtures").rglob("result.json")):
        try:
            recorded = json.loads(file.read_bytes())
        except (OSError, ValueError, RecursionError):
            continue  # damaged on purpose
        if isinstance(recorded, dict):
            model = ((recorded.get("agent_info") or {}).get("model_info") or {}).get("name")
            names |= {recorded.get("trial_name"), recorded.get("task_name"), model}
    texts = [name for name in names if isinstance(name, str)]
    assert len(texts) > 10
    assert [text for text in texts if without_credentials(text) != text] == []


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key[:12])
def test_keys_are_cut(key: str) -> None:
    assert without_credentials(f"see {key}, then") == f"see {CUT}, then"
    assert without_credentials(f'"{key}"') == f'"{CUT}"'


@pytest.mark.parametrize(("before", "value", "after"), VALUES)
def test_values_are_cut(before: str, value: str, after: str) -> None:
    cut = without_credentials(f"{before}{value}{after}")
    assert cut == f"{before}{CUT}{after}"
    assert without_credentials(cut) == cut


REPEATED = (
    "?", "?key", "a-", "%", "://a:", "http://a:", "_eyJ", "eyJ", X[:60] + "=", "=", "ha-", "/",
    " ", "key" + " " * 200, "sk-a", "sk-" + "a" * 300, "sk-ant-1", "glagent-", "a", "1", "aB1",
    "curl ", "curl -u ", "-u ", "secret", "secret ", "secret" + "\\" * 8, "bearer ", "\n",
    "authorization: basic ", "?" + "a" * 70, "?" + "secret" * 11 + "x=", "-----BEGIN ",
    "-----BEGIN PRIVATE KEY-----", "a:", "a:b@", 'a:"', "@", "xoxa-1-", "1-", "aws key ",
    "https://hooks.slack.com/services/T", "token=aB1", "=AKC", "\\", "%2B", "[", "<redacted",
)  # fmt: skip
STARTS = (
    "",
    "= ",
    "clkey",
    "key",
    "bearer",
    "xoxa-",
    "://a:",
    "https://hooks.slack.com/services/T",
)
SEARCH = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (150, 150))
from wmo_distill.credentials import is_masked, is_secret_name, without_credentials
from wmo_distill.scanner import _rules
rules = [pattern for _, pattern in _rules()]
for text in json.load(sys.stdin):
    without_credentials(text), is_masked(text), is_secret_name(text)
    for pattern in rules:
        for _ in pattern.finditer(text):
            pass
print(len(rules))
"""


def test_the_rules_take_no_square_of_a_text() -> None:
    """Seconds of work; a rule that goes back over all it read needs hours for these."""
    texts = [
        start + piece * (20_000 // len(piece)) + end
        for piece in REPEATED
        for start, end in ((STARTS[0], "@"), (STARTS[1], "="), *((one, "") for one in STARTS[2:]))
        if start in ("", "= ") or len(piece) == 1
    ]
    done = subprocess.run(
        [sys.executable, "-c", SEARCH],
        input=json.dumps(texts),
        cwd=ROOT,
        text=True,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert int(done.stdout) > 40

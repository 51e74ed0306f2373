"""Completion in a shell, as `--show-completion` prints it for bash."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BASH = shutil.which("bash")


@pytest.mark.skipif(BASH is None, reason="no bash on this machine")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("wmo-distill sh", {"show"}),
        ("wmo-distill d", {"doctor", "datums"}),
        ("wmo-distill show out --to", {"--tokens", "--tokenizer"}),
        ("wmo-distill build x --on-s", {"--on-secret"}),
        ("wmo-distill show ou", set()),  # bash itself completes names of files then
    ],
)
def test_bash_completes_commands_and_options(line: str, offered: set[str], tmp_path: Path) -> None:
    command = tmp_path / "wmo-distill"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m wmo_distill "$@"\n')
    command.chmod(0o755)
    script = f"""
        source <(wmo-distill --show-completion bash)
        complete -p wmo-distill > /dev/null || exit 9
        COMP_WORDS=({line}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        _wmo_distill_completion wmo-distill
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    assert BASH is not None
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [BASH, "--norc", "-c", script],
        env=os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert set(done.stdout.split()) == offered

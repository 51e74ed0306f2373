"""`wmo-distill doctor`: look before building."""

import shlex
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from wmo_distill.cli.flags import Paths
from wmo_distill.cli.output import Json, columns, printable, say, size

if TYPE_CHECKING:
    from wmo_distill.doctor.advice import Advice
    from wmo_distill.doctor.diagnose import Diagnosis


NOTHING_FOUND = 4


def doctor(paths: Paths, printing: Json) -> None:
    """Look before building: do these trials hold tokens, and what is missing for training?"""
    from wmo_distill.doctor.diagnose import diagnose

    diagnosis = diagnose(paths)
    if diagnosis.trials or printing.as_json:
        printing.put(diagnosis, lambda: render(diagnosis, paths))
    if not diagnosis.trials:
        say(
            f"{printable(', '.join(map(str, paths)))}: expected trials at any depth, found none: "
            "no directory holds a trial's result.json, config.json or files of its agent; "
            "check the PATH"
        )
        raise typer.Exit(NOTHING_FOUND)


def render(diagnosis: "Diagnosis", paths: list[Path]) -> str:
    """The findings as text, then the lines to add."""
    from wmo_distill.trials.agents import records_tokens

    d, sample = diagnosis, diagnosis.sample
    found = [
        ("trials", f"{d.trials:,} in {d.jobs:,} jobs, {size(d.bytes)}"),
        ("harbor", _counts(d.harbor)),
        ("agents", _counts(d.agents)),
        ("models", _counts(d.models)),
    ]
    if d.build_seconds is not None and d.shard_bytes is not None:
        found.append(
            (
                "a build",
                f"about {_duration(d.build_seconds)}, about {size(d.shard_bytes)} of shards",
            )
        )
    held = [
        ("tokens, log-probabilities", f"{sample.with_logprobs:,}"),
        ("tokens, not all with one", f"{sample.without_logprobs:,}"),
        ("no sampled tokens", _reasons(sample.without_tokens)),
        ("episodes", f"{sample.episodes:,}, of which {sample.measured:,} with a valid grade"),
        ("endings", _counts(sample.stop_reasons)),
    ]
    blocks = [
        "Found\n" + columns(found),
        f"Read, {sample.trials:,} of {d.trials:,} trials, {size(sample.bytes)}\n" + columns(held),
    ]
    if d.advice:
        blocks.append("Missing\n" + "\n".join(_lack(advice) for advice in d.advice))
    agents = [name for name in d.agents if records_tokens(name)] or ["terminus-2"]
    blocks += _lines(d.advice, agents, paths)
    return "\n\n".join(blocks) + "\n"


def _lack(advice: "Advice") -> str:
    use = " (for RL)" if advice.for_rl_only else ""
    why = textwrap.fill(advice.why, 92, initial_indent=" " * 6, subsequent_indent=" " * 6)
    return f"  {advice.missing}: {advice.of}{use}\n{why}"


def _lines(advice: tuple["Advice", ...], agents: list[str], paths: list[Path]) -> list[str]:
    """What to add to the next run, and to the build."""
    job = [line for a in advice for line in a.job]
    # Two things that are missing may be mended by one line.
    agent = list(dict.fromkeys(line for a in advice for line in a.agent))
    declare = list(dict.fromkeys(f"--declare {item}" for a in advice for item in a.declare))
    blocks = []
    if job or agent:
        lines = list(job)
        if agent:
            lines.append("agents:")
            for name in agents:
                lines += [f"  - name: {name}", "    kwargs:"]
                lines += [f"      {line}" for line in agent]
        flags = [f"--agent-kwarg {line.replace(': ', '=')}" for line in agent]
        flags += [f"--{line.replace(': ', ' ').replace('_', '-')}" for line in job]
        blocks.append(
            "Add to the job config of the next harbor run\n"
            + "\n".join(f"  {line}" for line in lines)
        )
        blocks.append(f"or to its command line\n  harbor run ... {' '.join(flags)}")
    given = printable(" ".join(shlex.quote(str(path)) for path in paths))
    command = " ".join([f"wmo-distill build {given} -o shards", *declare])
    others = [option for a in advice for option in a.build]
    if others:
        command += "".join(f" [{option}]" for option in others)
    title = "Build, and declare what no file records" if declare else "Build"
    blocks.append(f"{title}\n  {command}")
    return blocks


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{printable(name)} {n:,}" for name, n in counts.items()) or "none"


def _reasons(counts: Mapping[str, int]) -> str:
    n = sum(counts.values())
    return f"{n:,}" + (f" ({_counts(counts)})" if n else "")


def _duration(seconds: float) -> str:
    if seconds < 1:
        return "a second"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"

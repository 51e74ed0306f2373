"""What the doctor found, for people, and the lines to add to the next run and the build."""

import shlex
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from wmo_distill.doctor.advice import Advice
from wmo_distill.doctor.diagnose import Diagnosis
from wmo_distill.report.tables import Row, counts, page, section, size
from wmo_distill.sources.harbor.agents import records_tokens
from wmo_distill.visible import visible

_HEAD = (
    "", "episodes", "tokens", "log-probabilities", "grade", "ending", "policy version", "train sft",
    "train rl",
)  # fmt: skip


def render_diagnosis(diagnosis: Diagnosis, paths: list[Path], sinks: Path | None = None) -> str:
    """The findings as text, then the lines to add."""
    d, sample = diagnosis, diagnosis.sample
    built = d.build_seconds is not None and d.shard_bytes is not None
    found: list[Row] = [
        ("trials", f"{d.trials:,}{f' in {d.jobs:,} jobs' * bool(d.jobs)}, {size(d.bytes)}"),
        ("not readable", f"{len(d.unread):,} trials or directories" if d.unread else None),
        ("duplicates", _some(d.duplicates)),
        ("formats", counts({kind: held.trials for kind, held in d.formats.items()}) or "none"),
        ("harbor", counts(d.harbor)),
        ("agents", counts(d.agents)),
        ("models", counts(d.models)),
        (
            "a build",
            f"about {_duration(d.build_seconds or 0.0)}, about {size(d.shard_bytes or 0)} of shards"
            if built
            else None,
        ),
    ]
    without = sum(sample.without_tokens.values())
    reasons = f" ({counts(sample.without_tokens)})" if without else ""
    held: list[Row] = [
        ("tokens, log-probabilities", f"{sample.with_logprobs:,}"),
        ("tokens, not all with one", f"{sample.without_logprobs:,}"),
        ("no sampled tokens", f"{without:,}{reasons}"),
        ("episodes", f"{sample.episodes:,}, of which {sample.measured:,} with a valid grade"),
        ("endings", counts(sample.stop_reasons) or "none"),
    ]
    can: list[Row] = [
        (
            kind,
            *(n or "-" for n in (one.episodes, one.tokens, one.logprobs, one.grade, one.ending)),
            one.policy_version or "-",
            one.tokens or "-",
            one.rl or "-",
        )
        for kind, one in d.formats.items()
    ]
    agents = [name for name in d.agents if records_tokens(name)] or ["terminus-2"]
    return page(
        section("Found", found),
        section(f"Read, {sample.trials:,} of {d.trials:,} trials, {size(sample.bytes)}", held),
        section("Episodes read that hold, and can train", can, head=_HEAD),
        _missing(d.advice, several=len(d.formats) > 1),
        *_lines(d.advice, agents, paths, sinks),
    )


def _missing(lacks: Sequence[Advice], *, several: bool) -> str:
    """What is missing, a heading each; below it who lacks it, once where the reason is one."""
    topics: dict[str, dict[str, list[Advice]]] = {}
    for lack in lacks:
        topics.setdefault(lack.missing, {}).setdefault(lack.why, []).append(lack)
    blocks = ["Missing"]
    for missing, reasons in topics.items():
        for number, (why, alike) in enumerate(reasons.items()):
            of = "; ".join(f"{one.format}, {one.of}" if several else one.of for one in alike)
            use = " (for RL)" if alike[0].for_rl_only else ""
            if len(reasons) == 1:
                blocks.append(_filled(f"{missing}: {of}{use}", 2, 4))
            else:
                blocks += [_filled(f"{missing}{use}", 2, 4)] * (not number)
                blocks.append(_filled(of, 4, 6))
            blocks.append(_filled(why, 6, 6))
    return "\n".join(blocks) if lacks else ""


def _filled(text: str, first: int, then: int) -> str:
    return textwrap.fill(text, 92, initial_indent=" " * first, subsequent_indent=" " * then)


def _some(duplicates: Mapping[str, str]) -> str:
    """How many trials get no row, and the first of them."""
    named = [f"{path} of {other}" for path, other in list(duplicates.items())[:3]]
    more = "; ..." if len(duplicates) > len(named) else ""
    return f"{len(duplicates):,}, without rows: {'; '.join(named)}{more}" if named else ""


def _lines(
    advice: tuple[Advice, ...], agents: list[str], paths: list[Path], sinks: Path | None
) -> list[str]:
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
    given = visible(" ".join(shlex.quote(str(path)) for path in paths))
    recorded = [] if sinks is None else [f"--sinks {visible(shlex.quote(str(sinks)))}"]
    command = " ".join([f"wmo-distill build {given} -o shards", *recorded, *declare])
    others = list(dict.fromkeys(option for a in advice for option in a.build))
    if sinks is not None:
        others = [option for option in others if not option.startswith("--sinks")]
    if others:
        command += "".join(f" [{option}]" for option in others)
    title = "Build, and declare what no file records" if declare else "Build"
    blocks.append(f"{title}\n  {command}")
    return blocks


def _duration(seconds: float) -> str:
    if seconds < 1:
        return "a second"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"

"""The recorded calls of one episode to the spans of its chats, each kept or counted."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from wmo_distill.arrays import NO_IDS, Ids
from wmo_distill.issues import Issue
from wmo_distill.records import SegmentInfo, SegmentKind, SpanSource
from wmo_distill.sources.evidence import Evidence
from wmo_distill.sources.recorded import Call, CallStatus
from wmo_distill.tokenjson.rows import whole_row
from wmo_distill.tokens import TokenSpan
from wmo_distill.trials.calls import SpanChain, prompt_fault, usable
from wmo_distill.trials.holes import header_of, history_before, holes, provable, witness_of
from wmo_distill.trials.lineage import Lineage, answers_of, lineage_of
from wmo_distill.trials.spans import Placed, listed_calls

_SUBAGENT = SegmentInfo(SegmentKind.SUBAGENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """The spans of one episode and the account of its calls."""

    spans: tuple[TokenSpan, ...] = ()
    segments: tuple[SegmentInfo, ...] = (SegmentInfo(),)
    source: SpanSource = SpanSource.NONE
    issues: tuple[Issue, ...] = ()
    calls_found: int = 0
    main_calls: int = 0
    """Of the calls found, those of the main chat."""
    holes: int = 0
    """Answers in the main chat's prompts, and in others', that no recorded call sampled."""


@dataclass(slots=True)
class _Chat:
    """One segment to be."""

    info: SegmentInfo
    placed: Placed
    declared: bool = True
    """Whether the source says that its calls belong together."""
    turns: bool = False
    """Whether each call is a turn that the agent took, so that no answer was passed over."""
    chain: SpanChain = field(default_factory=lambda: SpanChain(0))
    kept: list[int] = field(default_factory=list)
    """Which of the calls have a span."""

    def build(self, segment: int) -> None:
        self.chain = SpanChain(segment)
        add = self.chain.add_proved if self.placed.proved else self.chain.add
        self.kept = [k for k, call in enumerate(self.placed.calls) if add(call)]

    def split(self, header: Ids) -> tuple["list[_Chat]", tuple[Issue, ...]]:
        """(this chat and those that its calls turn out to be, issues)."""
        if self.turns:
            return [self], ()
        calls = [self.placed.calls[k] for k in self.kept]
        if self.chain.is_unbroken and not any(call.used is False for call in calls):
            return [self], ()
        found = answers_of(calls) if self.declared else lineage_of(calls, header)
        if len(found.chats) < 2 and not found.superseded:
            return [self], found.issues
        return self._parts(found), found.issues

    def _parts(self, found: Lineage) -> "list[_Chat]":
        """The first chat keeps the calls without a span, which no lineage names."""
        main = set(range(len(self.placed.calls)))
        main -= {self.kept[i] for part in (*found.chats[1:], found.superseded) for i in part}
        parts = [_Chat(self.info, self._of(sorted(main), self.placed.issues), self.declared)]
        for part in found.chats[1:]:
            parts.append(_Chat(_SUBAGENT, self._of([self.kept[i] for i in part])))
        if found.superseded:
            passed = self._of([self.kept[i] for i in found.superseded])
            calls = [call._replace(used=False) for call in passed.calls]
            issues = (Issue.SUPERSEDED,) * len(calls)
            side = replace(self.info, kind=SegmentKind.SUBAGENT)
            parts.append(_Chat(side, replace(passed, calls=calls, issues=issues)))
        return parts

    def _of(self, positions: Sequence[int], issues: tuple[Issue, ...] = ()) -> Placed:
        calls = [self.placed.calls[k] for k in positions]
        gone = self.placed.found - len(self.placed.calls) if issues else 0
        return Placed(calls, issues, len(calls) + gone, self.placed.proved)

    @property
    def is_one(self) -> bool:
        """Whether its calls follow each other.

        Answers that were passed over have nothing in common but that: each is one of another chat.
        """
        return not all(self.placed.calls[k].used is False for k in self.kept)


def placed_spans(evidence: Evidence, *, salvage: bool = True, extra: bool = True) -> Spans:
    """The spans of an episode and the account of its calls."""
    if evidence.listed is not None:
        placed, source, issues = listed_calls(evidence.listed, salvage=salvage, extra=extra)
        infos = [SegmentInfo(), *[SegmentInfo(SegmentKind.SUMMARIZER)] * (len(placed) - 1)]
        chats = [_Chat(info, one, turns=True) for info, one in zip(infos, placed, strict=True)]
    else:
        source, issues = evidence.call_source, evidence.call_issues
        chats = _recorded_chats(evidence, salvage)
    return _spans(chats, source, issues, witness=not evidence.counters.answers_marked)


def _spans(
    chats: list[_Chat], source: SpanSource, issues: tuple[Issue, ...], *, witness: bool
) -> Spans:
    """`witness`: whether the tokens are to prove that no answer is missing."""
    for number, chat in enumerate(chats):
        chat.build(number)
    header = header_of([chat.chain.chat for chat in chats if chat.kept]) if witness else NO_IDS
    split = [chat.split(header) for chat in chats]
    said = [*issues, *(issue for _, of_chat in split for issue in of_chat)]
    # The chats given keep their numbers; those found in them come after.
    whole = [parts[0] for parts, _ in split] + [part for parts, _ in split for part in parts[1:]]
    for number, chat in enumerate(whole):
        if number >= len(chats) or chat is not chats[number]:
            chat.build(number)
    kept = [chat for chat in whole if chat.kept]
    following = [chat for chat in kept if chat.is_one]
    seen = witness_of([chat.chain.chat for chat in following], header)
    lost = sum(holes(chat.chain.chat, seen, chat.kept) for chat in following)
    spans = [span for chat in whole for span in chat.chain.spans]
    if witness and not seen.is_telling and provable([chat.chain.chat for chat in kept]):
        said.append(Issue.HOLE_UNPROVABLE)
    if whole[0].kept and history_before(whole[0].chain.chat, seen):
        said.append(Issue.HISTORY_BEFORE_FIRST_CALL)
    for chat in whole:
        said += (*chat.placed.issues, *chat.chain.issues)
    return Spans(
        spans=tuple(spans),
        segments=tuple(chat.info for chat in whole),
        source=source if spans else SpanSource.NONE,
        issues=tuple(said),
        calls_found=sum(chat.placed.found for chat in whole),
        main_calls=whole[0].placed.found,
        holes=lost,
    )


def _recorded_chats(evidence: Evidence, salvage: bool) -> list[_Chat]:
    """The chats of calls that are recorded one by one: the declared ones, then the rest."""
    calls, issues = _once(evidence.calls)
    n = len(evidence.calls)
    if not any(call.completion.size or _damaged(call) for call in calls):
        none = (Issue.NO_COMPLETION_IDS, *[Issue.CALL_WITHOUT_EVIDENCE] * len(calls))
        return [_Chat(SegmentInfo(), Placed(issues=(*issues, *none), found=n))]
    if not salvage and (_torn_or_unordered(evidence.call_issues) or any(map(_faulty, calls))):
        dropped = (*issues, *[Issue.CALL_NOT_SALVAGED] * len(calls))
        return [_Chat(SegmentInfo(), Placed(issues=dropped, found=n))]
    declared = {info.kind for info in evidence.lineages.values()}
    by_name: dict[str | None, list[Call]] = {} if SegmentKind.MAIN in declared else {None: []}
    by_name |= {name: [] for name in evidence.lineages}
    for call in calls:
        name = call.lineage if call.lineage in by_name else None
        by_name.setdefault(name, []).append(call)
    chats = [
        _Chat(
            _info(evidence.lineages, name, first=not k),
            Placed(of_name, found=len(of_name)),
            declared=name is not None,
        )
        for k, (name, of_name) in enumerate(by_name.items())
    ]
    first = chats[0].placed
    gone = replace(first, issues=tuple(issues), found=first.found + n - len(calls))
    return [replace(chats[0], placed=gone), *chats[1:]]


def _info(declared: Mapping[str, SegmentInfo], name: str | None, *, first: bool) -> SegmentInfo:
    if name is None:
        return SegmentInfo() if first else _SUBAGENT
    return declared[name]


def _once(calls: Sequence[Call]) -> tuple[list[Call], list[Issue]]:
    """(the calls that were answered, each once; why each other one is dropped)."""
    kept: list[Call] = []
    issues: list[Issue] = []
    by_key: dict[str, Call] = {}
    contents: dict[str, set[bytes]] = {}
    for call in calls:
        if call.status in (CallStatus.FAILED, CallStatus.CANCELLED):
            issues.append(Issue.CALL_FAILED)
            continue
        if call.key is not None and (first := by_key.setdefault(call.key, call)) is not call:
            known = contents.setdefault(call.key, {_content(first)})
            if (content := _content(call)) in known:
                issues.append(Issue.DUPLICATE)
                continue
            known.add(content)
            issues.append(Issue.CALL_CONFLICT)
        kept.append(call._replace(used=False) if call.status is CallStatus.CUT else call)
    return kept, issues


def _content(call: Call) -> bytes:
    """A digest of what a call holds; rows that were not read are alike."""
    digest = hashlib.blake2b(digest_size=16)
    logprobs = call.logprobs.values
    for ids in (whole_row(call.prompt), whole_row(call.completion), logprobs):
        digest.update(b"-" if ids is None else b"%d:" % ids.size + ids.tobytes())
    return digest.digest()


def _damaged(call: Call) -> bool:
    return call.completion.delta is None and not call.completion.missing


def _torn_or_unordered(issues: Sequence[Issue]) -> bool:
    return not {Issue.SINK_TORN_LINE, Issue.SINK_OUT_OF_ORDER}.isdisjoint(issues)


def _faulty(call: Call) -> bool:
    """Whether the reference refuses this call; a log-probability that is NaN it takes."""
    sampled, logprobs, _ = usable(call)
    return (
        prompt_fault(call.prompt) not in (None, Issue.PROMPT_EMPTY)
        or sampled is None
        or (logprobs is None and bool(sampled.size))
        or bool(call.logprobs.nulls)
    )

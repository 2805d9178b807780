"""Drops that follow each other closely are one line of the timeline."""

from headrace.live.drops import DropLog

SECOND = 1_000_000_000


def test_drops_less_than_a_second_apart_are_one_spell():
    log = DropLog()
    for tenths, frames in ((0, 1), (5, 2), (14, 1), (25, 4)):
        log.add(tenths * SECOND // 10, source=0, stage="decode", cause="overflow", frames=frames)
    found = [(spell.began_ns, spell.frames, spell.words) for spell in log.spells]
    assert found == [
        (0, 4, "overflow at decode, over 1.4 s"),
        (25 * SECOND // 10, 4, "overflow at decode"),
    ]


def test_sources_stages_and_causes_are_told_apart():
    log = DropLog()
    log.add(0, source=0, stage="decode", cause="overflow", frames=1)
    log.add(1, source=1, stage="decode", cause="overflow", frames=1)
    log.add(2, source=0, stage="model", cause="stale", frames=1)
    log.add(3, source=None, stage="model", cause="stale", frames=1)
    log.add(4, source=0, stage="decode", cause="overflow", frames=1)
    assert [(spell.source, spell.stage, spell.frames) for spell in log.spells] == [
        (0, "decode", 2),
        (1, "decode", 1),
        (0, "model", 1),
        (None, "model", 1),
    ]

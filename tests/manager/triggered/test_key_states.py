"""The records of keys between batches: those of many keys at once are those of each."""

from __future__ import annotations

import pyarrow as pa

from manager.keyed.key_states import KeyRecord, KeyStates


def test_caches_are_found_where_they_are_stored_and_where_they_have_changed() -> None:
    payload = pa.table({"key": ["a", "b", "c"]})
    states = KeyStates(None, ["key"])
    assert states.state_texts([3, 1]) == ["", ""]
    for event, (key, cache) in enumerate([(3, "{}"), (-5, '{"n": 1}'), (9, "")]):
        states.put(key, KeyRecord(state_text=cache), event)
    assert states.state_texts([9, 3, -5, 4]) == ["", "{}", '{"n": 1}', ""]
    stored = KeyStates(states.table(payload), ["key"])
    stored.drop(3)
    stored.put(4, KeyRecord(state_text="[]"), 0)
    keys = [4, -5, 3, 10, -9, 9]
    assert stored.state_texts(keys) == ["[]", '{"n": 1}', "", "", "", ""]
    assert stored.state_texts(keys) == [record.state_text if record else "" for record in map(stored.get, keys)]


def test_keys_without_any_record_have_no_cache() -> None:
    states = KeyStates(None, ["key"])
    states.put(1, KeyRecord(state_text="{}"), 0)
    emptied = KeyStates(states.table(pa.table({"key": ["a"]})), ["key"])
    emptied.clear()
    assert emptied.state_texts([1, 2]) == ["", ""]
    assert emptied.state_texts([]) == []

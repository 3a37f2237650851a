"""Aggregation of a shop's orders."""

from windbolt.step import Aggregation, Event, Out


def aggregate(events: list[Event], call: Aggregation) -> Out:
    """Returns the takings of these orders; if they include the last order of the day, as a message with the schema
    DayClosed."""
    takings = {
        "shop": call.key,
        "orders": call.count,
        "total": round(sum(event.value["amount"] for event in events), 2),
    }
    last = events[-1].value
    if last.get("last"):
        return Out({**takings, "lastOrder": last["id"]}, key=call.key, headers={"schemaName": "DayClosed"})
    return Out(takings, key=call.key)

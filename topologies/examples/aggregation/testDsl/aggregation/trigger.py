"""When the orders of a shop are added up."""

from windbolt.step import Event, FireResult, TriggerCall

MOST = 100


def trigger(event: Event, call: TriggerCall) -> FireResult:
    """Fires at the last order of the day, and at every hundredth; the cache is empty again when a window begins."""
    call.cache["orders"] = call.cache.get("orders", 0) + 1
    if event.value.get("last") or call.cache["orders"] == MOST:
        return FireResult.FIRE_AND_PURGE
    return FireResult.CONTINUE

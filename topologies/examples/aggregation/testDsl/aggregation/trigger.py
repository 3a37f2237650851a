"""When the orders of a shop are aggregated."""

from windbolt.step import Event, FireResult, TriggerCall

MOST = 100


def trigger(event: Event, call: TriggerCall) -> FireResult:
    """Fires at the last order of the day, and at every hundredth order; the cache is empty when a new window begins."""
    call.cache["orders"] = call.cache.get("orders", 0) + 1
    if event.value.get("last") or call.cache["orders"] == MOST:
        return FireResult.FIRE_AND_PURGE
    return FireResult.CONTINUE

"""Triggers that decide when the window of a key is due: ``with_key("user").with_trigger(CountTrigger(...))``."""

from windowing.settings.triggers import (
    CountTrigger,
    DailyByRule,
    DailyTrigger,
    FiredBy,
    FireResult,
    RuleTrigger,
    TriggerCall,
)

__all__ = ["CountTrigger", "DailyByRule", "DailyTrigger", "FireResult", "FiredBy", "RuleTrigger", "TriggerCall"]

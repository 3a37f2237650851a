"""The tasks of windowed bolts. In each batch they restore their open windows, admit events, fire due windows, and save
the windows that are still open. Look here for a window that is missing after a crash."""

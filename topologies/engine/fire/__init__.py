"""The tasks of windowed bolts. In each batch they restore their open windows, admit events, fire due windows, and save
what is still open. Look here for a window that is missing after a crash."""

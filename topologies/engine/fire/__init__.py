"""The tasks of windowed bolts: in each batch they restore their open windows, admit events, fire what is due, and save
what is still open; so a window that is missing after a crash is looked for here."""

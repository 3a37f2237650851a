"""Why a window has not fired: told from the checkpoint alone."""

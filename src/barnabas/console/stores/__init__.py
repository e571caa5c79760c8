"""What the console keeps in its own folder beside the history: settings, logs of lines, added clusters."""

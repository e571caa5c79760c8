"""HTTP: the application, its guard, the routes of views and of changes, and what templates draw with."""

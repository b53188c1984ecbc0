"""What each measuring command measures: its loads, options and results."""

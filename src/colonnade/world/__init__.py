"""Where parties run: clocks, links and whatever else is not deterministic by itself."""

"""What a run leaves behind: history, timeline, summary, run folder."""

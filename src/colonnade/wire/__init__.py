"""All that crosses between parties: the messages, their encoding, and the count of both."""

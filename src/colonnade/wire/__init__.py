"""All that crosses between parties: messages, their encoding, the count of both.

Imports no other room.
"""

"""A wide-area network on one machine: namespaces joined by a relay that delays, paces and loses."""

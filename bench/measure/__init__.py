"""How things are measured: processes and their cost, yard in a home of its own, peers, and the record."""

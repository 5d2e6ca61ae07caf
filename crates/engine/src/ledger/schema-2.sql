ALTER TABLE batches ADD COLUMN provenance TEXT;
-- How a site is told about the runs; none on this machine.
ALTER TABLE batches ADD COLUMN site TEXT;
-- In plain words why a run waits, while it does.
ALTER TABLE runs ADD COLUMN note TEXT;
-- The parcel and the group in it under which a site knows an attempt.
ALTER TABLE attempts ADD COLUMN place TEXT;
-- When a site was last heard, and what it is like to reach it since.
CREATE TABLE sites (
    name    TEXT PRIMARY KEY,
    seen    INTEGER,
    problem TEXT,
    since   INTEGER
) STRICT;

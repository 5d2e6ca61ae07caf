-- What ties the runs of a submission to others of their group; none for most.
ALTER TABLE batches ADD COLUMN tie TEXT;
-- Runs of one group find each other.
CREATE INDEX batches_tied ON batches (tie ->> '$.id') WHERE tie IS NOT NULL;

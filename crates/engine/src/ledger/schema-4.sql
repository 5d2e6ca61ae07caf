-- Trials in a row that have come to nothing: after a restart a sweep goes on counting.
ALTER TABLE sweeps ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;

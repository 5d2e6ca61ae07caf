-- The run whose newest checkpoint this one begins with.
ALTER TABLE runs ADD COLUMN begins_with TEXT;
-- The course of its objective, for the sweep it is part of.
ALTER TABLE runs ADD COLUMN course TEXT;

CREATE TABLE sweeps (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    name    TEXT NOT NULL,
    spec    TEXT NOT NULL,
    -- One submission for each target it uses.
    batches TEXT NOT NULL,
    -- The word, for people and queries.
    state   TEXT NOT NULL,
    reason  TEXT,
    created INTEGER NOT NULL,
    ended   INTEGER
) STRICT;
CREATE INDEX sweeps_open ON sweeps (id) WHERE ended IS NULL;

CREATE TABLE trials (
    sweep   INTEGER NOT NULL REFERENCES sweeps (id) ON DELETE CASCADE,
    number  INTEGER NOT NULL,
    -- The sampled parameters; the others follow from them.
    params  TEXT NOT NULL,
    -- What became of it, once that is known.
    fate    TEXT,
    PRIMARY KEY (sweep, number)
) STRICT, WITHOUT ROWID;

-- Runs of trials, in the order they were decided on.
CREATE TABLE legs (
    sweep   INTEGER NOT NULL REFERENCES sweeps (id) ON DELETE CASCADE,
    number  INTEGER NOT NULL,
    body    TEXT NOT NULL,
    -- None until there is room for it. Outlives the run itself, which may be cleaned away.
    run     TEXT UNIQUE,
    -- What it ended with.
    result  TEXT,
    PRIMARY KEY (sweep, number)
) STRICT, WITHOUT ROWID;

-- What the scheduler was told, in that order.
CREATE TABLE judgements (
    sweep  INTEGER NOT NULL REFERENCES sweeps (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    body   TEXT NOT NULL,
    PRIMARY KEY (sweep, number)
) STRICT, WITHOUT ROWID;

-- What people want of sweeps, until the yardmaster has taken it up.
CREATE TABLE sweep_requests (
    id    INTEGER PRIMARY KEY AUTOINCREMENT,
    sweep INTEGER NOT NULL REFERENCES sweeps (id) ON DELETE CASCADE,
    what  TEXT NOT NULL,
    at    INTEGER NOT NULL
) STRICT;

-- What the runs of one submission have in common.
CREATE TABLE batches (
    id       INTEGER PRIMARY KEY,
    project  TEXT NOT NULL,
    target   TEXT NOT NULL,
    declared TEXT NOT NULL,
    depot    TEXT NOT NULL,
    job      TEXT NOT NULL,
    source   TEXT NOT NULL,
    env      TEXT NOT NULL,
    extra    TEXT NOT NULL,
    created  INTEGER NOT NULL
) STRICT;

CREATE TABLE runs (
    seq       INTEGER PRIMARY KEY AUTOINCREMENT,
    id        TEXT NOT NULL UNIQUE,
    batch     INTEGER NOT NULL REFERENCES batches (id),
    name      TEXT NOT NULL,
    job       TEXT NOT NULL,
    target    TEXT NOT NULL,
    seed      INTEGER,
    params    TEXT NOT NULL,
    -- The word, for people and queries; `body` is the whole state.
    state     TEXT NOT NULL,
    body      TEXT NOT NULL,
    attempt   INTEGER NOT NULL,
    exit_code INTEGER,
    reason    TEXT,
    metrics   TEXT,
    created   INTEGER NOT NULL,
    started   INTEGER,
    ended     INTEGER,
    retry_of  TEXT
) STRICT;
CREATE INDEX runs_open ON runs (seq) WHERE ended IS NULL;
-- Covers what `yard ps` counts.
CREATE INDEX runs_by_batch ON runs (batch, state, seed);
CREATE INDEX runs_by_name ON runs (name, seq);

CREATE TABLE attempts (
    run     INTEGER NOT NULL REFERENCES runs (seq),
    number  INTEGER NOT NULL,
    token   TEXT NOT NULL,
    slot    TEXT NOT NULL,
    created INTEGER NOT NULL,
    result  TEXT,
    PRIMARY KEY (run, number)
) STRICT, WITHOUT ROWID;

-- What people want of runs, until the yardmaster has taken it up.
CREATE TABLE requests (
    id   INTEGER PRIMARY KEY AUTOINCREMENT,
    run  INTEGER NOT NULL REFERENCES runs (seq),
    what TEXT NOT NULL,
    at   INTEGER NOT NULL
) STRICT;

CREATE TABLE events (
    run  INTEGER NOT NULL REFERENCES runs (seq),
    at   INTEGER NOT NULL,
    what TEXT NOT NULL
) STRICT;
CREATE INDEX events_by_run ON events (run);

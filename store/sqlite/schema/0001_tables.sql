-- The tables of Penstock. Times are microseconds since the Unix epoch. Every
-- name begins with penstock_, for the file may hold a program's own tables too.

-- Ids are counted here and not by the tables, since rows move and vanish and an
-- id is never used twice.
CREATE TABLE penstock_counter (
  name  TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- notify: how many commits made something startable; see watch.go.
INSERT INTO penstock_counter VALUES ('job', 0), ('notify', 0);

-- What a claim selects by; kept when nothing waits there, so a claim finds those
-- where something does by gates and sleeping lanes. Not unique: a band staged under a load keeps its id
-- when it is released, beside the one that was visible before.
CREATE TABLE penstock_band (
  id       INTEGER PRIMARY KEY,
  queue    TEXT NOT NULL,
  kind     TEXT NOT NULL,
  priority INTEGER NOT NULL,
  run      TEXT NOT NULL,
  load     TEXT NOT NULL,
  suspect  INTEGER NOT NULL
) STRICT;
CREATE INDEX penstock_band_key ON penstock_band (load, kind, run, queue, priority, suspect);
CREATE INDEX penstock_band_run ON penstock_band (run) WHERE run <> '';
CREATE INDEX penstock_band_staged ON penstock_band (load) WHERE load <> '';

-- state: 0 empty, 1 ready at its gate, 2 sleeping until next_at, 3 empty and to be
-- removed unless a job refers to it.
-- draws: JSON, [["limit",cost],...], in the order of the jobs' draws.
CREATE TABLE penstock_lane (
  id      INTEGER PRIMARY KEY,
  band    INTEGER NOT NULL,
  grp     TEXT NOT NULL,
  draws   TEXT NOT NULL,
  state   INTEGER NOT NULL,
  next_at INTEGER NOT NULL,
  gate    TEXT NOT NULL,
  vtime   INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX penstock_lane_key ON penstock_lane (band, grp, draws);
CREATE INDEX penstock_lane_band ON penstock_lane (band);
CREATE INDEX penstock_lane_ready ON penstock_lane (band, gate, vtime) WHERE state = 1;
CREATE INDEX penstock_lane_sleeping ON penstock_lane (next_at) WHERE state = 2;
CREATE INDEX penstock_lane_sleeper ON penstock_lane (band, next_at) WHERE state = 2;

CREATE TABLE penstock_gate (
  limit_name TEXT NOT NULL,
  band       INTEGER NOT NULL,
  opens_at   INTEGER NOT NULL,
  vclock     INTEGER NOT NULL,
  PRIMARY KEY (limit_name, band)
) STRICT, WITHOUT ROWID;
-- Without the gates at which nobody waits: engine.Empty is the largest integer.
CREATE INDEX penstock_gate_opens ON penstock_gate (band, opens_at) WHERE opens_at < 9223372036854775807;

-- Jobs that wait (state 1) or run (state 2). past: counters of a job that was
-- started before, see store/engine/past.go. The columns from worker on are set while it runs.
CREATE TABLE penstock_job (
  id          INTEGER PRIMARY KEY,
  lane        INTEGER NOT NULL,
  state       INTEGER NOT NULL,
  at          INTEGER NOT NULL,
  enqueued_at INTEGER NOT NULL,
  expires_at  INTEGER NOT NULL,
  unique_key  TEXT,
  run         TEXT,
  ref         TEXT,
  starts      INTEGER NOT NULL,
  cancel      INTEGER NOT NULL,
  past        BLOB,
  error       TEXT,
  worker      TEXT,
  token       INTEGER,
  slot        INTEGER,
  lease_at    INTEGER,
  charges     TEXT
) STRICT;
CREATE INDEX penstock_job_due ON penstock_job (lane, at, id) WHERE state = 1;
CREATE INDEX penstock_job_held ON penstock_job (worker, id) WHERE state = 2;
CREATE INDEX penstock_job_cancel ON penstock_job (worker, id) WHERE state = 2 AND cancel = 1;
CREATE UNIQUE INDEX penstock_job_unique ON penstock_job (unique_key) WHERE unique_key IS NOT NULL;
CREATE INDEX penstock_job_run ON penstock_job (run, id) WHERE run IS NOT NULL;

-- What is written once with a job.
CREATE TABLE penstock_body (
  job     INTEGER PRIMARY KEY,
  payload BLOB,
  options TEXT
) STRICT;

-- Jobs that ended: done (3), dead (4), cancelled (5). The history is where most
-- rows are: besides its key, only the index of what can be pruned, which grows at
-- its end, holds a done row outside of a run.
CREATE TABLE penstock_ended (
  id          INTEGER PRIMARY KEY,
  lane        INTEGER NOT NULL,
  state       INTEGER NOT NULL,
  at          INTEGER NOT NULL,
  enqueued_at INTEGER NOT NULL,
  expires_at  INTEGER NOT NULL,
  unique_key  TEXT,
  run         TEXT,
  ref         TEXT,
  starts      INTEGER NOT NULL,
  cancel      INTEGER NOT NULL,
  past        BLOB,
  error       TEXT,
  finished_at INTEGER NOT NULL,
  reason      TEXT,
  result      BLOB
) STRICT;
CREATE INDEX penstock_ended_dead ON penstock_ended (id) WHERE state = 4;
CREATE INDEX penstock_ended_prune ON penstock_ended (finished_at) WHERE state <> 4;
CREATE INDEX penstock_ended_run ON penstock_ended (run, id, state) WHERE run IS NOT NULL;

CREATE TABLE penstock_call (
  run  TEXT NOT NULL,
  ref  TEXT NOT NULL,
  job  INTEGER NOT NULL,
  hash TEXT NOT NULL,
  line INTEGER NOT NULL,
  PRIMARY KEY (run, ref)
) STRICT, WITHOUT ROWID;
CREATE INDEX penstock_call_job ON penstock_call (job);

CREATE TABLE penstock_event (
  job     INTEGER NOT NULL,
  n       INTEGER NOT NULL,
  at      INTEGER NOT NULL,
  started INTEGER NOT NULL,
  outcome INTEGER NOT NULL,
  error   TEXT,
  next_at INTEGER NOT NULL,
  detail  BLOB,
  PRIMARY KEY (job, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE penstock_limit (
  name     TEXT PRIMARY KEY,
  declared TEXT NOT NULL,
  set_spec TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE penstock_limit_state (
  name  TEXT PRIMARY KEY,
  state BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- boot: the boot of the kernel its process runs on; see live.go.
CREATE TABLE penstock_worker (
  id      TEXT PRIMARY KEY,
  host    TEXT NOT NULL,
  boot    TEXT NOT NULL,
  pid     INTEGER NOT NULL,
  kinds   TEXT NOT NULL,
  run     TEXT NOT NULL,
  lease   INTEGER NOT NULL,
  seen_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE penstock_effect (
  key    TEXT PRIMARY KEY,
  job    INTEGER NOT NULL,
  token  INTEGER NOT NULL,
  done   INTEGER NOT NULL,
  at     INTEGER NOT NULL,
  result BLOB
) STRICT;
CREATE INDEX penstock_effect_begun ON penstock_effect (job) WHERE done = 0;

-- What was changed by hand, for people. Only the newest are kept.
CREATE TABLE penstock_note (
  id      INTEGER PRIMARY KEY,
  at      INTEGER NOT NULL,
  subject TEXT NOT NULL,
  text    TEXT NOT NULL
) STRICT;

CREATE TABLE penstock_queue (
  name   TEXT PRIMARY KEY,
  reason TEXT NOT NULL,
  at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

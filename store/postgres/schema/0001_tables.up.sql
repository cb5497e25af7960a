-- The tables of Penstock, in a schema of their own. Times are microseconds since
-- the Unix epoch, of this server's clock.

-- Ids are counted here, since rows move and vanish and an id is never used twice.
CREATE SEQUENCE job_id AS bigint;
CREATE SEQUENCE lane_id AS bigint;

CREATE TABLE counter (
  name  text PRIMARY KEY,
  value bigint NOT NULL
);

-- What a claim selects by; kept when nothing waits there. Not unique: a band
-- staged under a load keeps its id when it is released, beside the one that was
-- visible before.
CREATE TABLE band (
  id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  queue    text NOT NULL,
  kind     text NOT NULL,
  priority smallint NOT NULL,
  run      text NOT NULL,
  load     text NOT NULL,
  suspect  boolean NOT NULL
);
CREATE INDEX band_key ON band (load, kind, run, queue, priority, suspect);
CREATE INDEX band_run ON band (run) WHERE run <> '';
CREATE INDEX band_staged ON band (load) WHERE load <> '';

-- key: a hash of what tells lanes apart, but for the load.
-- state: 0 empty, 1 ready at its gate, 2 sleeping until next_at, 3 empty and to be
-- removed unless a job refers to it.
-- draws: JSON, [["limit",cost],...], in the order of the jobs' draws.
-- floor: no waiting job of the lane comes before it in the order of (at, id), so
-- that nobody walks over rows that left but that an old snapshot still sees.
CREATE TABLE lane (
  id      bigint PRIMARY KEY,
  key     bigint NOT NULL,
  band    bigint NOT NULL,
  grp     text NOT NULL,
  draws   text NOT NULL,
  state   smallint NOT NULL,
  next_at bigint NOT NULL,
  gate    text NOT NULL COLLATE "C", -- as gate.limit_name, which it is joined with
  vtime   bigint NOT NULL,
  floor_at bigint NOT NULL DEFAULT 0,
  floor_id bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 200);
CREATE INDEX lane_key ON lane (key);
-- Not id itself: lanes are looked up by it, and this index would be gone through as a
-- whole by a plan that was made while the table was empty.
CREATE INDEX lane_band ON lane (band, (id + 0));
CREATE INDEX lane_ready ON lane (band, gate, vtime, id) WHERE state = 1;
CREATE INDEX lane_sleeping ON lane (next_at, id) WHERE state = 2;
CREATE INDEX lane_sleeper ON lane (band, next_at) WHERE state = 2;

CREATE TABLE gate (
  limit_name text NOT NULL COLLATE "C",
  band       bigint NOT NULL,
  opens_at   bigint NOT NULL,
  vclock     bigint NOT NULL,
  PRIMARY KEY (limit_name, band)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 200);
-- Without the gates at which nobody waits: engine.Empty is the largest integer.
CREATE INDEX gate_opens ON gate (band, opens_at, limit_name) WHERE opens_at < 9223372036854775807;

-- What inserts put into lanes, and of which limits starts have ended; claims take
-- these rows and bring lanes and limits up to date. parts: the lane's key, for a
-- lane that is not there any more.
CREATE TABLE wake (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  lane       bigint NOT NULL DEFAULT 0,
  at         bigint NOT NULL DEFAULT 0,
  parts      text NOT NULL DEFAULT '',
  limit_name text NOT NULL DEFAULT '',
  ended      bigint NOT NULL DEFAULT 0,
  passed_at  bigint NOT NULL DEFAULT 0,
  slot       bigint NOT NULL DEFAULT 0
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- Jobs that wait (state 1) or run (state 2). past: counters of a job that was
-- started before. The columns from worker on are set while it runs.
CREATE TABLE job (
  id          bigint PRIMARY KEY,
  lane        bigint NOT NULL,
  at          bigint NOT NULL,
  enqueued_at bigint NOT NULL,
  expires_at  bigint NOT NULL,
  starts      integer NOT NULL,
  state       smallint NOT NULL,
  cancel      boolean NOT NULL,
  unique_key  text,
  run         text,
  ref         text,
  past        bytea,
  error       text,
  worker      text,
  token       bigint,
  slot        bigint,
  lease_at    bigint,
  charges     text
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_vacuum_cost_delay = 1);
CREATE INDEX job_due ON job (lane, at, id) WHERE state = 1;
CREATE INDEX job_held ON job (worker, id) WHERE state = 2;
CREATE INDEX job_cancel ON job (worker, id) WHERE state = 2 AND cancel;
CREATE UNIQUE INDEX job_unique ON job (unique_key) WHERE unique_key IS NOT NULL;
CREATE INDEX job_run ON job (run, id) WHERE run IS NOT NULL;

-- What is written once with a job.
CREATE TABLE body (
  job     bigint PRIMARY KEY,
  payload bytea,
  options text
);

-- Jobs that ended: done (3), dead (4), cancelled (5).
CREATE TABLE ended (
  id          bigint PRIMARY KEY,
  lane        bigint NOT NULL,
  at          bigint NOT NULL,
  enqueued_at bigint NOT NULL,
  expires_at  bigint NOT NULL,
  finished_at bigint NOT NULL,
  starts      integer NOT NULL,
  state       smallint NOT NULL,
  cancel      boolean NOT NULL,
  unique_key  text,
  run         text,
  ref         text,
  past        bytea,
  error       text,
  reason      text,
  result      bytea
) WITH (autovacuum_vacuum_insert_scale_factor = 0.2);
CREATE INDEX ended_dead ON ended (id) WHERE state = 4;
CREATE INDEX ended_dead_prune ON ended (finished_at) WHERE state = 4;
CREATE INDEX ended_prune ON ended (finished_at) WHERE state <> 4;
CREATE INDEX ended_run ON ended (run, id, state) WHERE run IS NOT NULL;

CREATE TABLE call (
  run  text NOT NULL,
  ref  text NOT NULL,
  job  bigint NOT NULL,
  hash text NOT NULL,
  line bigint NOT NULL,
  PRIMARY KEY (run, ref)
);
CREATE INDEX call_job ON call (job);

CREATE TABLE event (
  job     bigint NOT NULL,
  n       integer NOT NULL,
  at      bigint NOT NULL,
  started bigint NOT NULL,
  outcome smallint NOT NULL,
  error   text,
  next_at bigint NOT NULL,
  detail  bytea,
  PRIMARY KEY (job, n)
);

CREATE TABLE limit_spec (
  name     text COLLATE "C" PRIMARY KEY,
  declared text NOT NULL,
  set_spec text NOT NULL
);

CREATE TABLE limit_state (
  name  text COLLATE "C" PRIMARY KEY,
  state bytea NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 200);

CREATE TABLE worker (
  id      text PRIMARY KEY,
  host    text NOT NULL,
  pid     bigint NOT NULL,
  kinds   text NOT NULL,
  run     text NOT NULL,
  lease   bigint NOT NULL,
  seen_at bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE effect (
  key    text PRIMARY KEY,
  job    bigint NOT NULL,
  token  bigint NOT NULL,
  done   boolean NOT NULL,
  at     bigint NOT NULL,
  result bytea
);
CREATE INDEX effect_begun ON effect (job) WHERE NOT done;

-- What was changed by hand, for people. Only the newest are kept.
CREATE TABLE note (
  id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at      bigint NOT NULL,
  subject text NOT NULL,
  text    text NOT NULL
);

CREATE TABLE queue (
  name   text PRIMARY KEY,
  reason text NOT NULL,
  at     bigint NOT NULL
);

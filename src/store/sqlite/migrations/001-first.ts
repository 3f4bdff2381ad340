/**
 * Version 1 of a store's file. Words that repeat (namespaces, Workers, Verbs, Event types, Nouns) are interned as small
 * integers, an Action's Event is folded into its row, and what is mostly empty stands last or in a table of its own: an
 * Action with its record, Version, key and indexes stays well under 900 bytes (§15).
 */
export const first = `
CREATE TABLE meta (
  name TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta (name, value) VALUES ('epoch', 0), ('keys_indexed', 0);

CREATE TABLE namespaces (
  ns INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  seeded INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Names are registered for ever: a replay answers though its Verb was removed (R2).
CREATE TABLE operations (
  ns INTEGER NOT NULL,
  nouns TEXT NOT NULL,
  operation TEXT NOT NULL,
  PRIMARY KEY (ns, nouns, operation)
) STRICT, WITHOUT ROWID;

CREATE TABLE nouns (
  noun INTEGER PRIMARY KEY,
  ns INTEGER NOT NULL,
  name TEXT NOT NULL,
  plural TEXT NOT NULL,
  -- The Noun as it was last deployed: what the next deploy is compared with (N2).
  manifest TEXT NOT NULL,
  UNIQUE (ns, name)
) STRICT;

CREATE TABLE index_fields (
  nf INTEGER PRIMARY KEY,
  noun INTEGER NOT NULL,
  field TEXT NOT NULL,
  is_unique INTEGER NOT NULL,
  UNIQUE (noun, field)
) STRICT;

CREATE TABLE verbs (
  verb INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE event_types (
  type INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE workers (
  worker INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  ns INTEGER NOT NULL,
  name TEXT NOT NULL,
  kind TEXT NOT NULL,
  grants TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  removed_at INTEGER,
  -- Its own limit, calls a second and at once; null: the Startup's (§10).
  rate REAL CHECK (rate > 0),
  burst INTEGER CHECK (burst >= 1),
  CHECK ((rate IS NULL) = (burst IS NULL)),
  -- A name is never given to another Worker, not after a removal either (SPEC §1).
  UNIQUE (ns, name)
) STRICT;

CREATE TABLE tokens (
  hash BLOB PRIMARY KEY CHECK (length(hash) = 32),
  worker INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_worker ON tokens (worker);

CREATE TABLE actions (
  -- In the order in which they came on record.
  n INTEGER PRIMARY KEY,
  id BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
  ns INTEGER NOT NULL,
  worker INTEGER NOT NULL,
  verb INTEGER NOT NULL,
  -- 0 pending, 1 succeeded, 2 failed, 3 refused
  status INTEGER NOT NULL CHECK (status BETWEEN 0 AND 3),
  -- Null: do. 1: send.
  mode INTEGER,
  -- Its UTF-8 bytes: TEXT is cut at NUL by some drivers, and two keys would become one (K1).
  key BLOB,
  -- The scheme's byte, then the 32 bytes of the fingerprint (K3).
  fingerprint BLOB NOT NULL CHECK (length(fingerprint) = 33),
  created_at INTEGER NOT NULL,
  -- Settled this many milliseconds after its creation.
  took_ms INTEGER CHECK (took_ms >= 0),
  seq INTEGER,
  event BLOB CHECK (length(event) = 16),
  event_type INTEGER,
  -- JSON [record, version, …] of what it changed.
  changed TEXT,
  target TEXT,
  input TEXT NOT NULL,
  -- JSON of the output, the error or the fix, as the status says.
  outcome TEXT,
  -- JSON [operation, target] of what the key binds, when that is not the Action's own (K3).
  bound TEXT,
  on_n INTEGER,
  -- Null: itself.
  root INTEGER,
  decided_against TEXT,
  decided_after TEXT,
  steps TEXT,
  -- Null: 1.
  attempts INTEGER,
  -- Null: 1 if it succeeded, else 0.
  units INTEGER,
  CHECK ((status = 0) = (took_ms IS NULL)),
  CHECK ((status = 0) = (seq IS NULL)),
  CHECK ((status = 0) = (event IS NULL)),
  CHECK ((status = 0) = (event_type IS NULL)),
  CHECK ((status = 0) = (outcome IS NULL))
) STRICT;
CREATE UNIQUE INDEX actions_seq ON actions (ns, seq) WHERE seq IS NOT NULL;
CREATE INDEX actions_worker ON actions (worker, n);
CREATE INDEX actions_verb ON actions (ns, verb, n);
CREATE INDEX actions_unsuccessful ON actions (ns, status, seq) WHERE status >= 2;
CREATE INDEX actions_on ON actions (on_n) WHERE on_n IS NOT NULL;
CREATE INDEX actions_root ON actions (root) WHERE root IS NOT NULL;

-- What only a pending Action has; its row goes when it settles.
CREATE TABLE pending (
  action INTEGER PRIMARY KEY,
  -- The fencing token; 0 when nobody has it (V4).
  fence INTEGER NOT NULL,
  -- The server's epoch in which a run of it began; null while none runs.
  running INTEGER,
  crashes INTEGER NOT NULL DEFAULT 0,
  ran_ms INTEGER NOT NULL DEFAULT 0,
  attempts INTEGER NOT NULL DEFAULT 1,
  waiting_for TEXT
) STRICT;

-- A 52-bit hash of Worker and key; Actions above meta's keys_indexed are not in it yet, see keys.ts.
CREATE TABLE keys (
  hash INTEGER NOT NULL,
  action INTEGER NOT NULL,
  PRIMARY KEY (hash, action)
) STRICT, WITHOUT ROWID;

CREATE TABLE chains (
  root INTEGER PRIMARY KEY,
  fixed TEXT NOT NULL
) STRICT;

CREATE TABLE journal (
  root INTEGER NOT NULL,
  step TEXT NOT NULL,
  -- The order in which the chain's steps first started.
  place INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  status TEXT NOT NULL,
  input TEXT,
  outcome TEXT,
  attempts INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  effect INTEGER NOT NULL,
  at_most_once INTEGER NOT NULL,
  key_holds_ms INTEGER NOT NULL,
  action INTEGER NOT NULL,
  PRIMARY KEY (root, step)
) STRICT, WITHOUT ROWID;

CREATE TABLE holds (
  ns INTEGER NOT NULL,
  resource TEXT NOT NULL,
  root INTEGER NOT NULL,
  -- 1: a turn, which fairness wants and nothing rests on. 0: an effect rests on it (V6).
  turn INTEGER NOT NULL,
  PRIMARY KEY (ns, resource)
) STRICT, WITHOUT ROWID;
CREATE INDEX holds_root ON holds (root);

CREATE TABLE records (
  -- In order of creation.
  r INTEGER PRIMARY KEY,
  noun INTEGER NOT NULL,
  id TEXT NOT NULL,
  -- Negative once deleted; the row stays, so that its id is never used again.
  version INTEGER NOT NULL CHECK (version <> 0),
  fields TEXT NOT NULL,
  UNIQUE (noun, id)
) STRICT;
CREATE INDEX records_live ON records (noun, r) WHERE version > 0;

CREATE TABLE versions (
  record INTEGER NOT NULL,
  version INTEGER NOT NULL,
  action INTEGER NOT NULL,
  -- JSON of Change[]. Null for a creation: undoing all later changes from the record's fields gives what it set.
  changes TEXT,
  PRIMARY KEY (record, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE record_index (
  nf INTEGER NOT NULL,
  -- The value's JSON.
  value TEXT NOT NULL,
  record INTEGER NOT NULL,
  PRIMARY KEY (nf, value, record)
) STRICT, WITHOUT ROWID;

CREATE TABLE usage (
  ns INTEGER NOT NULL,
  -- Days since 1970, UTC.
  day INTEGER NOT NULL,
  verb INTEGER NOT NULL,
  worker INTEGER NOT NULL,
  units INTEGER NOT NULL,
  PRIMARY KEY (ns, day, verb, worker)
) STRICT, WITHOUT ROWID;

CREATE TABLE inbox (
  i INTEGER PRIMARY KEY,
  id BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
  ns INTEGER NOT NULL,
  action INTEGER NOT NULL,
  worker INTEGER NOT NULL,
  kind TEXT NOT NULL,
  records TEXT NOT NULL,
  would TEXT,
  at INTEGER NOT NULL,
  -- The order of decisions; null while open.
  decided INTEGER UNIQUE,
  decision TEXT,
  decided_by INTEGER,
  decided_action INTEGER,
  CHECK ((decided IS NULL) = (decision IS NULL))
) STRICT;
CREATE INDEX inbox_worker ON inbox (worker, i);
CREATE INDEX inbox_kind ON inbox (ns, kind, i);
CREATE INDEX inbox_action ON inbox (action);
CREATE INDEX inbox_open ON inbox (i, ns) WHERE decided IS NULL;
`

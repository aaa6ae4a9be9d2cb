-- The whole content of a memdb file, as it is today. A new file is made from
-- this script alone; files of an older version are brought here step by step
-- by memdb/engine/sqlite/migrations/.
--
-- Rules for every table: STRICT, explicit columns, NOT NULL unless absence
-- means something (the comment says what), a CHECK for each range and enum,
-- an index behind each foreign key. Readable by SQLite 3.40 without extensions:
-- FTS5 is the only virtual table.
--
-- Packed ids (memdb/models/ids.py). A row's id says where it lives:
--   session  scope_no << 44 | session_no << 24
--   message  scope_no << 44 | session_no << 24 | seq
--   A session_no from 524288 on is that of a branch.
--   entry, artifact name, summary, item, namespace   scope_no << 44 | n
-- so a scope and a session are contiguous ranges of ids: the tenant filter and
-- "the last 50" are both a walk along the primary key.
--
-- Times are UTC milliseconds (`_ms`). `uid` is a UUIDv7: the identity of a row
-- across files. JSON columns hold only what is never filtered or sorted.
--
-- `digest` covers the columns of its row that stand before it and are not computed, so that
-- a damaged byte is found; the columns behind it are derived. memdb writes it with the row
-- (memdb/engine/columns.py). It is a plain column, so any program can read, copy, compact and
-- dump the file. A row that another program adds or changes is a finding of `memdb check`.


-- Facts about the file itself: 'created_by', 'created_ms', 'file_uid', and the
-- 'fingerprint' of the schema it was made from (memdb/engine/sqlite/schema.py). 'in_use'
-- begins with 1 while a part of the file is in its WAL, and names that WAL
-- (memdb/engine/sqlite/mark.py). 'wal_missing' says what was lost with a WAL, until it is accepted.
CREATE TABLE meta (
  key TEXT PRIMARY KEY NOT NULL,
  value TEXT NOT NULL,
  digest INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;


-- How many transactions changed each kind of thing, for who watches the file
-- (memdb/engine/sqlite/writer.py). Appended messages are not counted: `last_seq` of their
-- session tells. Derived: a kind without a row was never changed.
CREATE TABLE changes (
  kind TEXT PRIMARY KEY NOT NULL,
  number INTEGER NOT NULL
) STRICT, WITHOUT ROWID;


-- What the file does by itself (memdb/models/settings.py), a field per row; a
-- field without a row has its default.
CREATE TABLE settings (
  name TEXT PRIMARY KEY NOT NULL,
  value TEXT NOT NULL,                 -- JSON
  updated_ms INTEGER NOT NULL,
  digest INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;


-- Whose memory it is. Both names are opaque text, compared byte by byte; the
-- user '' holds what all users of the app share, and no user can be called so.
-- The counters only grow: no session number or id ever comes to mean another thing.
CREATE TABLE scopes (
  scope_no INTEGER PRIMARY KEY CHECK (scope_no BETWEEN 1 AND 524287),
  uid TEXT NOT NULL,
  app TEXT NOT NULL CHECK (app <> ''),
  user_name TEXT NOT NULL,
  last_session_no INTEGER NOT NULL DEFAULT 0 CHECK (last_session_no BETWEEN 0 AND 524287),
  last_n INTEGER NOT NULL DEFAULT 0,   -- of ids of entries, artifact names, summaries, items
  created_ms INTEGER NOT NULL,
  digest INTEGER NOT NULL DEFAULT 0,
  UNIQUE (app, user_name)
) STRICT;


-- An ordered run of messages in a scope. `last_seq` only grows: a number that
-- was given to a message is never given to another one, also after deletes.
-- A branch is one more row with the name of its session. It shares the messages of
-- its parent up to `leaves_at`, and of other rows the spans in `shares`; its own have
-- the other seqs after `leaves_at`, under its own id (ADR-0023).
CREATE TABLE sessions (
  id INTEGER PRIMARY KEY CHECK (id & 0xFFFFFF = 0),
  scope_no INTEGER NOT NULL REFERENCES scopes (scope_no) ON DELETE RESTRICT,
  uid TEXT NOT NULL,
  name TEXT NOT NULL CHECK (name <> ''),
  branch TEXT NOT NULL DEFAULT '',     -- '': the session itself
  parent_id INTEGER REFERENCES sessions (id) ON DELETE RESTRICT,   -- NULL: it is no branch
  leaves_at INTEGER NOT NULL DEFAULT 0 CHECK (leaves_at BETWEEN 0 AND 0xFFFFFF),
  shares TEXT,                         -- JSON array of [first seq, last seq, row id]; NULL: none
  title TEXT,                          -- NULL: never given one
  last_seq INTEGER NOT NULL DEFAULT 0 CHECK (last_seq BETWEEN 0 AND 0xFFFFFF),
  metadata TEXT,                       -- JSON object; NULL: none
  created_ms INTEGER NOT NULL,
  updated_ms INTEGER NOT NULL,         -- when the newest message was written
  digest INTEGER NOT NULL DEFAULT 0,
  bigrams TEXT,                        -- derived from title: CJK bigrams; NULL: no such characters
  message_count INTEGER NOT NULL DEFAULT 0,    -- derived: messages under its own id,
  tokens INTEGER NOT NULL DEFAULT 0,           -- the tokens of these,
  archived_count INTEGER NOT NULL DEFAULT 0,   -- and how many of them are archived
  UNIQUE (scope_no, name, branch),
  CHECK (id >> 44 = scope_no),
  CHECK ((branch = '') = (parent_id IS NULL) AND (parent_id IS NULL) = (id >> 43 & 1 = 0)),
  CHECK (shares IS NULL OR parent_id IS NOT NULL),
  CHECK (parent_id IS NULL OR parent_id < id),   -- so that no path has an end in itself
  CHECK (last_seq >= leaves_at)
) STRICT;

CREATE INDEX sessions_parent ON sessions (parent_id) WHERE parent_id IS NOT NULL;


-- One utterance, tool call or tool result. Only an edit by the user and forgetting change what
-- was said; a cold row may hand text, parts and metadata over to an archive segment.
-- `text` is what is searched and counted; `parts` is the whole original. There are
-- many of them: what repeats in each is short (ADR-0034).
CREATE TABLE messages (
  id INTEGER PRIMARY KEY CHECK (id & 0xFFFFFF <> 0),
  uid BLOB NOT NULL CHECK (length(uid) > 0),   -- 16 bytes; other ids in UTF-8: models/messages.py
  role TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'system', 'tool')),
  author TEXT,                         -- NULL: only the role is known
  writer TEXT,                         -- program, adapter or client that stored it; NULL: nobody said
  text TEXT,                           -- NULL: archived, with parts and metadata
  parts TEXT,                          -- JSON array of parts; NULL: the text is all there is
  external_id TEXT CHECK (external_id <> ''),   -- the host's id, unique in its session; NULL: none
  tokens INTEGER NOT NULL CHECK (tokens >= 0),
  counter TEXT,                        -- which TokenCounter gave `tokens`; NULL: 'cl100k_base'
  metadata TEXT,                       -- JSON object; NULL: none
  created_ms INTEGER NOT NULL,
  digest INTEGER NOT NULL DEFAULT 0,
  content_hash BLOB NOT NULL CHECK (length(content_hash) = 8),
  bigrams TEXT,                        -- derived from text: CJK bigrams; NULL: no such characters
  spans TEXT,                          -- derived: days it speaks of, '2022-04-01/2022-04-30 2022-05-03'; NULL: none
  CHECK (text IS NOT NULL OR (parts IS NULL AND metadata IS NULL AND bigrams IS NULL))
) STRICT;

-- id >> 24 is the session. Partial: rows without an external id cost nothing.
CREATE UNIQUE INDEX messages_external ON messages (id >> 24, external_id)
  WHERE external_id IS NOT NULL;


-- The summary DAG: text that stands for a span of messages of one session.
-- Depth 0 is a leaf, made from messages; depth n is made from neighbouring
-- summaries of n - 1, which then say so in `condensed_into`. Leaves follow each
-- other without a gap, so the summaries without one cover each message once.
CREATE TABLE summaries (
  id INTEGER PRIMARY KEY,
  uid TEXT NOT NULL,                   -- hash of session, span and sources: the same for whoever makes it
  session_id INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  depth INTEGER NOT NULL CHECK (depth BETWEEN 0 AND 31),
  first_seq INTEGER NOT NULL CHECK (first_seq >= 1),
  last_seq INTEGER NOT NULL CHECK (last_seq >= first_seq),
  condensed_into INTEGER REFERENCES summaries (id) ON DELETE NO ACTION,   -- NULL: nothing stands for it yet
  text TEXT,                           -- NULL: pruned; can be made again from its sources
  hint TEXT,                           -- what expanding it would show; NULL: not said
  quality TEXT NOT NULL CHECK (quality IN ('fallback', 'extractive', 'model')),
  summarizer TEXT NOT NULL,            -- name of what wrote the text
  trust TEXT NOT NULL CHECK (trust IN ('untrusted', 'flagged')),   -- the least of its sources' and its own
  tokens INTEGER NOT NULL CHECK (tokens >= 0),
  counter TEXT NOT NULL,
  content_hash BLOB NOT NULL CHECK (length(content_hash) = 8),
  created_ms INTEGER NOT NULL,
  digest INTEGER NOT NULL DEFAULT 0,
  bigrams TEXT,                        -- derived, as in messages
  CHECK (text IS NOT NULL OR (quality = 'extractive' AND bigrams IS NULL))
) STRICT;

-- One summary per place, whoever summarises first.
CREATE UNIQUE INDEX summaries_place ON summaries (session_id, depth, first_seq);
CREATE UNIQUE INDEX summaries_uid ON summaries (session_id, uid);
CREATE INDEX summaries_frontier ON summaries (session_id, depth, first_seq) WHERE condensed_into IS NULL;
CREATE INDEX summaries_condensed ON summaries (condensed_into, first_seq) WHERE condensed_into IS NOT NULL;


-- What cold messages said, compressed: text, parts and metadata of a span. The
-- rows of `messages` stay where they are, as its index cards.
CREATE TABLE archive_segments (
  session_id INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  first_seq INTEGER NOT NULL CHECK (first_seq >= 1),
  last_seq INTEGER NOT NULL CHECK (last_seq >= first_seq),
  message_count INTEGER NOT NULL CHECK (message_count >= 1),
  codec TEXT NOT NULL CHECK (codec IN ('zlib')),
  data BLOB NOT NULL,
  sha256 BLOB NOT NULL CHECK (length(sha256) = 32),   -- of the data before compression
  created_ms INTEGER NOT NULL,
  digest INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (session_id, first_seq)
) STRICT;


-- Long-term memory: one record of a category. What it was before is kept in
-- entry_history; deleting the entry deletes its history too. An entry "holds" while it is
-- active, and valid_from_ms <= now < valid_to_ms and expires_ms, where they are said. So say
-- `HOLDS` (tables/entries.py), `Entry.holds` and entries_view.
CREATE TABLE entries (
  id INTEGER PRIMARY KEY,
  uid TEXT NOT NULL,
  scope_no INTEGER NOT NULL REFERENCES scopes (scope_no) ON DELETE RESTRICT,
  category TEXT NOT NULL CHECK (category <> ''),
  key TEXT CHECK (key <> ''),          -- names the fact it states; NULL: not a keyed fact
  text TEXT NOT NULL CHECK (text <> ''),
  keywords TEXT NOT NULL DEFAULT '',   -- lines, one keyword each
  importance INTEGER NOT NULL DEFAULT 5 CHECK (importance BETWEEN 1 AND 10),
  pinned INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)),   -- always in the prompt, never evicted
  trust TEXT NOT NULL DEFAULT 'trusted' CHECK (trust IN ('trusted', 'untrusted', 'flagged')),
  version INTEGER NOT NULL DEFAULT 1 CHECK (version >= 1),   -- grows with each change
  active INTEGER NOT NULL DEFAULT 1 CHECK (active IN (0, 1)),
  superseded_by INTEGER REFERENCES entries (id) ON DELETE NO ACTION,   -- NULL: still stands
  session_id INTEGER REFERENCES sessions (id) ON DELETE NO ACTION,     -- NULL: told by nobody
  first_seq INTEGER,                   -- span in that session; NULL with session_id
  last_seq INTEGER,
  session_only INTEGER NOT NULL DEFAULT 0 CHECK (session_only IN (0, 1)),   -- not for other sessions
  writer TEXT CHECK (writer <> ''),    -- as in messages, or for example 'extracted:sentences-1'
  use_count INTEGER NOT NULL DEFAULT 0 CHECK (use_count >= 0),
  last_used_ms INTEGER,                -- NULL: never recalled
  valid_from_ms INTEGER,               -- when it became true in the world; NULL: not said
  valid_to_ms INTEGER,                 -- NULL: still true
  expires_ms INTEGER,                  -- NULL: never
  metadata TEXT,                       -- JSON object; NULL: none
  created_ms INTEGER NOT NULL,         -- when it was said
  updated_ms INTEGER NOT NULL,         -- when it was last said or changed
  stored_ms INTEGER NOT NULL,          -- when the file learnt this version
  digest INTEGER NOT NULL DEFAULT 0,
  content_hash BLOB NOT NULL CHECK (length(content_hash) = 16),
  said_hash BLOB NOT NULL CHECK (length(said_hash) = 16),   -- derived: of the text, normalised
  bigrams TEXT,                        -- derived, as in messages
  spans TEXT,                          -- derived from text and updated_ms, as in messages
  CHECK (id >> 44 = scope_no),
  CHECK ((first_seq IS NULL) = (last_seq IS NULL))
) STRICT;

-- One open statement per key, and one more in each session for itself; one that ends
-- may have its successor beside it.
CREATE UNIQUE INDEX entries_key ON entries (scope_no, key, (CASE WHEN session_only = 1 THEN session_id ELSE 0 END))
  WHERE key IS NOT NULL AND active = 1 AND valid_to_ms IS NULL;
CREATE INDEX entries_said ON entries (scope_no, said_hash);
CREATE INDEX entries_scope ON entries (scope_no, category, active);
CREATE INDEX entries_pinned ON entries (scope_no) WHERE pinned = 1;
CREATE INDEX entries_superseded ON entries (superseded_by) WHERE superseded_by IS NOT NULL;
CREATE INDEX entries_session ON entries (session_id) WHERE session_id IS NOT NULL;

-- What an entry was from stored_ms on, until version `version` + 1 replaced it
-- at replaced_ms, and why: with the row itself this answers for any time.
CREATE TABLE entry_history (
  entry_id INTEGER NOT NULL REFERENCES entries (id) ON DELETE CASCADE,
  version INTEGER NOT NULL CHECK (version >= 1),
  category TEXT NOT NULL,
  key TEXT,
  text TEXT NOT NULL,
  keywords TEXT NOT NULL,
  importance INTEGER NOT NULL,
  pinned INTEGER NOT NULL,
  trust TEXT NOT NULL,
  active INTEGER NOT NULL,
  session_id INTEGER REFERENCES sessions (id) ON DELETE NO ACTION,
  first_seq INTEGER,
  last_seq INTEGER,
  session_only INTEGER NOT NULL,
  writer TEXT,
  valid_from_ms INTEGER,
  valid_to_ms INTEGER,
  expires_ms INTEGER,
  metadata TEXT,
  updated_ms INTEGER NOT NULL,
  stored_ms INTEGER NOT NULL,
  reason TEXT NOT NULL CHECK (
    reason IN (
      'update', 'merge', 'repeat', 'supersede', 'expire', 'evict', 'restore', 'pin', 'trust'
    )
  ),
  replaced_ms INTEGER NOT NULL CHECK (replaced_ms >= stored_ms),
  digest INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (entry_id, version)
) STRICT, WITHOUT ROWID;

CREATE INDEX entry_history_session ON entry_history (session_id) WHERE session_id IS NOT NULL;

-- What a newer entry does to an older one, as a model judges it. Both stay as they are; reading
-- puts the newer one first. Such a guess is derived: `rebuild` makes it anew. A guess that
-- somebody rejected is truth, and is never made again. What is certain needs no row here:
-- `superseded_by` says it.
CREATE TABLE entry_links (
  newer_id INTEGER NOT NULL REFERENCES entries (id) ON DELETE CASCADE,
  older_id INTEGER NOT NULL REFERENCES entries (id) ON DELETE CASCADE,
  kind TEXT NOT NULL CHECK (kind IN ('repeats', 'updates', 'corrects', 'retracts')),
  probability REAL NOT NULL CHECK (probability BETWEEN 0 AND 1),
  reason TEXT NOT NULL,                -- the features that decided, with their weights
  model TEXT NOT NULL CHECK (model <> ''),   -- hash of the weights and code that judged
  made_ms INTEGER NOT NULL,
  rejected_ms INTEGER,                 -- NULL: nobody rejected it
  digest INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (newer_id, older_id),
  CHECK (newer_id <> older_id AND newer_id >> 44 = older_id >> 44)
) STRICT, WITHOUT ROWID;

CREATE INDEX entry_links_older ON entry_links (older_id);


-- Where items are: a path of labels. Each label in `path` ends with the character 31,
-- which no label holds, so a path and all below it are one range; '' is the root.
-- A namespace goes with its last item.
CREATE TABLE item_namespaces (
  id INTEGER PRIMARY KEY,
  scope_no INTEGER NOT NULL REFERENCES scopes (scope_no) ON DELETE RESTRICT,
  path TEXT NOT NULL,
  digest INTEGER NOT NULL DEFAULT 0,
  UNIQUE (scope_no, path),
  CHECK (id >> 44 = scope_no)
) STRICT;

-- A value under a namespace and key: what frameworks call a store. It is replaced as a
-- whole; `version` counts that. `text` is what full-text search finds of the value.
CREATE TABLE items (
  id INTEGER PRIMARY KEY,
  uid TEXT NOT NULL,
  namespace_id INTEGER NOT NULL REFERENCES item_namespaces (id) ON DELETE RESTRICT,
  key TEXT NOT NULL CHECK (key <> ''),
  version INTEGER NOT NULL CHECK (version >= 1),
  ttl_ms INTEGER CHECK (ttl_ms > 0),   -- NULL: it does not expire
  expires_ms INTEGER,                  -- NULL with ttl_ms; reading may move it to now + ttl_ms
  created_ms INTEGER NOT NULL,
  updated_ms INTEGER NOT NULL,
  vector_ref INTEGER,                  -- ref of its first vector, the others follow; NULL: none
  vector_count INTEGER NOT NULL DEFAULT 0 CHECK (vector_count >= 0),
  embedded INTEGER NOT NULL DEFAULT 0 CHECK (embedded IN (0, 1)),   -- 0: its vectors were given
  metadata TEXT,                       -- JSON object; NULL: none
  search_fields TEXT,                  -- JSON array of field paths; NULL: nothing is searched
  value TEXT,                          -- JSON; NULL: the value is bytes
  data BLOB,                           -- the bytes; NULL: the value is JSON
  text TEXT,                           -- NULL: no words
  writer TEXT CHECK (writer <> ''),    -- of this version, as in messages
  digest INTEGER NOT NULL DEFAULT 0,
  bigrams TEXT,                        -- derived, as in messages
  UNIQUE (namespace_id, key),
  CHECK ((value IS NULL) <> (data IS NULL)),
  CHECK ((ttl_ms IS NULL) = (expires_ms IS NULL)),
  CHECK ((vector_ref IS NULL) = (vector_count = 0))
) STRICT;

CREATE INDEX items_updated ON items (namespace_id, updated_ms);
CREATE INDEX items_created ON items (namespace_id, created_ms);
CREATE INDEX items_expires ON items (expires_ms) WHERE expires_ms IS NOT NULL;
CREATE INDEX items_vectors ON items (vector_ref, vector_count, embedded)
  WHERE vector_ref IS NOT NULL;


-- A model's vectors. Several spaces may live side by side, so that a new model
-- can be filled while the old one serves (ADR-0014). A number never comes back:
-- work in progress names a space by it.
CREATE TABLE embedding_spaces (
  space_no INTEGER PRIMARY KEY AUTOINCREMENT CHECK (space_no BETWEEN 1 AND 65535),
  model TEXT NOT NULL CHECK (model <> ''),
  dim INTEGER NOT NULL CHECK (dim BETWEEN 1 AND 65536),
  metric TEXT NOT NULL CHECK (metric IN ('cosine')),
  created_ms INTEGER NOT NULL,
  complete_ms INTEGER,                 -- when first all had its vector; NULL: still being filled
  retired_ms INTEGER,                  -- since when it gets no new vectors; NULL: it does
  digest INTEGER NOT NULL DEFAULT 0,
  UNIQUE (model, dim, metric)
) STRICT;

-- Which vectors there are. A ref is the id of a message, entry or summary; those of
-- an item begin at its `vector_ref`. A row whose text has no vector (empty, or nothing
-- the model knows) is in no group. Ids: scope_no << 44 | n << 8.
-- `slots` and `planes` are derived: one bit per dimension of each vector (1 where the
-- component is above zero). memdb/engine/sketches.py says why in planes.
CREATE TABLE vector_groups (
  id INTEGER PRIMARY KEY CHECK (id & 255 = 0),
  space_no INTEGER NOT NULL REFERENCES embedding_spaces (space_no) ON DELETE CASCADE,
  kind TEXT NOT NULL CHECK (kind IN ('entry', 'item', 'message', 'summary')),
  bucket INTEGER NOT NULL,             -- ref >> 8, of the same scope as the id
  digest INTEGER NOT NULL DEFAULT 0,
  slots BLOB NOT NULL CHECK (length(slots) BETWEEN 1 AND 256),   -- ref & 255, rising, a byte each
  planes BLOB NOT NULL CHECK (length(planes) % length(slots) = 0),
  UNIQUE (space_no, kind, bucket)
) STRICT;

-- The vectors, never all zero. Of messages only the direction: `dim` signed bytes, the
-- largest 127 or -127. Of other kinds `dim` float32, little-endian, finite. One integer is
-- the whole key, so that some hundred of them are found in a moment. The space '(given)'
-- holds vectors that callers give with items; no model fills it.
CREATE TABLE vectors (
  id INTEGER PRIMARY KEY,              -- that of its group | ref & 255
  vector BLOB NOT NULL CHECK (length(vector) > 0),
  digest INTEGER NOT NULL DEFAULT 0
) STRICT;


-- Bytes, stored once however many versions share them, cut into chunks so that
-- reading and writing need no more memory than one chunk.
CREATE TABLE blobs (
  blob_no INTEGER PRIMARY KEY,
  sha256 BLOB UNIQUE CHECK (length(sha256) = 32),   -- NULL: still being written
  size_bytes INTEGER NOT NULL CHECK (size_bytes >= 0),
  created_ms INTEGER NOT NULL,
  digest INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE blob_chunks (
  blob_no INTEGER NOT NULL REFERENCES blobs (blob_no) ON DELETE CASCADE,
  chunk_no INTEGER NOT NULL CHECK (chunk_no >= 0),
  codec TEXT NOT NULL CHECK (codec IN ('raw', 'zlib')),
  size_bytes INTEGER NOT NULL CHECK (size_bytes > 0),   -- before compression
  data BLOB NOT NULL,
  digest INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (blob_no, chunk_no)
) STRICT;

-- A name that artifacts are saved under; session_no 0 holds the `user:` names
-- that all sessions of the scope share. `last_version` only grows, so a number
-- never comes back with other bytes, also after every version was deleted; only
-- what was forgotten takes its name and counter along. `text` is that of the
-- newest version, for search.
CREATE TABLE artifact_names (
  id INTEGER PRIMARY KEY,
  scope_no INTEGER NOT NULL REFERENCES scopes (scope_no) ON DELETE RESTRICT,
  session_no INTEGER NOT NULL CHECK (session_no BETWEEN 0 AND 1048575),
  name TEXT NOT NULL CHECK (name <> ''),
  last_version INTEGER NOT NULL CHECK (last_version >= 1),
  text TEXT,                           -- NULL: no version left, or not text
  digest INTEGER NOT NULL DEFAULT 0,
  bigrams TEXT,                        -- derived, as in messages
  UNIQUE (scope_no, session_no, name),
  CHECK (id >> 44 = scope_no)
) STRICT;

-- Immutable versions. rev_version = 2^63 - 1 - version: the newest version is
-- the first row of its range.
CREATE TABLE artifacts (
  scope_no INTEGER NOT NULL,
  session_no INTEGER NOT NULL,
  name TEXT NOT NULL,
  rev_version INTEGER NOT NULL CHECK (rev_version < 9223372036854775807),
  uid TEXT NOT NULL,
  blob_no INTEGER NOT NULL REFERENCES blobs (blob_no) ON DELETE RESTRICT,
  size_bytes INTEGER NOT NULL CHECK (size_bytes >= 0),
  mime TEXT NOT NULL CHECK (mime <> ''),
  metadata TEXT,                       -- JSON object; NULL: none
  message_id INTEGER,                  -- the message that made it; NULL: not said. It may be gone.
  created_ms INTEGER NOT NULL,
  moved_ms INTEGER,                    -- when it got this name; NULL: it was saved under it
  first_version INTEGER,               -- its number before a sync gave it another; NULL: the same
  writer TEXT CHECK (writer <> ''),    -- as in messages
  digest INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (scope_no, session_no, name, rev_version),
  FOREIGN KEY (scope_no, session_no, name)
    REFERENCES artifact_names (scope_no, session_no, name) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE INDEX artifacts_blob ON artifacts (blob_no);


-- Work that is due, written in the transaction that made it due. One row per
-- kind, subject and space: adding it again changes nothing. An 'embed' job of
-- a session stands for all its messages from `next_seq` on; its 'extract' row
-- stays, as the watermark below which facts were looked for. The kinds about
-- the 'file' are upkeep that comes round again: `next_seq` is when it was done.
CREATE TABLE jobs (
  kind TEXT NOT NULL CHECK (
    kind IN (
      'embed', 'summarize', 'archive', 'decay', 'extract',
      'expire', 'retain', 'sessions', 'optimize', 'checkpoint'
    )
  ),
  subject TEXT NOT NULL CHECK (
    subject IN ('session', 'message', 'entry', 'item', 'scope', 'summary', 'file')
  ),
  ref INTEGER NOT NULL,                -- id of the subject; 0 for the file
  space_no INTEGER NOT NULL DEFAULT 0, -- 0: not about vectors
  next_seq INTEGER NOT NULL DEFAULT 0, -- how far it is done: the first seq still to do
  due_ms INTEGER NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0, -- failures so far
  lease_ms INTEGER NOT NULL DEFAULT 0, -- nobody else takes it before this time
  error TEXT,                          -- of the last failure; NULL: none
  digest INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (kind, subject, ref, space_no)
) STRICT, WITHOUT ROWID;

CREATE INDEX jobs_space ON jobs (space_no, ref);


-- Key-value state of an app, a user ('' session) or a session, for hosts.
CREATE TABLE state (
  app TEXT NOT NULL CHECK (app <> ''),
  user_name TEXT NOT NULL,             -- '': the app's own
  session TEXT NOT NULL,               -- '': the user's own
  key TEXT NOT NULL,
  value TEXT NOT NULL,                 -- JSON
  version INTEGER NOT NULL DEFAULT 1,
  updated_ms INTEGER NOT NULL,
  digest INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (app, user_name, session, key)
) STRICT, WITHOUT ROWID;


-- What was removed on request, and when; never what it said. An import brings back
-- what was deleted, not what was forgotten. An import into two scopes gives both the
-- same uids, so each scope has tombstones of its own.
CREATE TABLE tombstones (
  uid TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('session', 'message', 'entry', 'item', 'artifact')),
  scope_no INTEGER NOT NULL,
  ref TEXT NOT NULL,                   -- where it was: a session's name, 'name@version', an id
  deleted_ms INTEGER NOT NULL,
  forgotten INTEGER NOT NULL DEFAULT 0 CHECK (forgotten IN (0, 1)),   -- 1: no import brings it back
  digest INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (scope_no, uid)
) STRICT, WITHOUT ROWID;


-- What this file and the sync folder have agreed on (memdb/sync); empty without sync. Nothing is
-- said here: a thing is the hash of its uid or its name, its version a digest of what it says.
-- A thing without a row, or with another version, is to be sent; a row without its thing tells
-- that it was removed.
CREATE TABLE synced (
  kind TEXT NOT NULL CHECK (
    kind IN (
      'session', 'branch', 'message', 'summary', 'entry', 'link', 'version', 'artifact', 'item',
      'state'
    )
  ),
  scope_no INTEGER NOT NULL,           -- 0: state of an app
  thing INTEGER NOT NULL,
  version INTEGER NOT NULL,
  gone INTEGER NOT NULL DEFAULT 0 CHECK (gone IN (0, 1, 2)),   -- 1: deleted, 2: forgotten
  stamp INTEGER NOT NULL DEFAULT 0,    -- when it was said last, or removed (memdb/sync/clock.py)
  PRIMARY KEY (kind, scope_no, thing)
) STRICT, WITHOUT ROWID;


-- Full text, derived from the tables of the same name. Written by the stores,
-- not by triggers: two to four times faster in bulk. A CJK run is one token in
-- `text` and its bigrams stand in `bigrams`. memdb ranks without the sizes of
-- columns, so they are stored only where rows are few. A removed word leaves an index
-- at once ('secure-delete', never switched: ADR-0056); SQLite 3.42 or newer reads that.
CREATE VIRTUAL TABLE messages_fts USING fts5 (
  text, author, bigrams,
  content="messages", content_rowid="id", columnsize=0,
  tokenize="porter unicode61 remove_diacritics 2"
);
INSERT INTO messages_fts (messages_fts, rank) VALUES ('secure-delete', 1);
-- No write merges parts of it, unless nobody did for long: memdb/engine/sqlite/upkeep.py.
INSERT INTO messages_fts (messages_fts, rank) VALUES ('automerge', 0);
INSERT INTO messages_fts (messages_fts, rank) VALUES ('usermerge', 8);
INSERT INTO messages_fts (messages_fts, rank) VALUES ('crisismerge', 64);
-- The tail of that index: messages whose words are not in it yet, up to 64, which go into
-- it together. Every search reads both (memdb/engine/sqlite/tail.py, ADR-0027).
CREATE TABLE messages_fts_tail (
  id INTEGER PRIMARY KEY
) STRICT;
-- The words of archived messages, made from the segments: no row holds them any more
-- (ADR-0009). The content table is there for programs that list the rows of each table.
CREATE VIRTUAL TABLE archived_fts USING fts5 (
  text, bigrams,
  content="messages", content_rowid="id", columnsize=0,
  tokenize="porter unicode61 remove_diacritics 2"
);
INSERT INTO archived_fts (archived_fts, rank) VALUES ('secure-delete', 1);
CREATE VIRTUAL TABLE entries_fts USING fts5 (
  text, keywords, bigrams,
  content="entries", content_rowid="id", columnsize=0,
  tokenize="porter unicode61 remove_diacritics 2"
);
INSERT INTO entries_fts (entries_fts, rank) VALUES ('secure-delete', 1);
CREATE VIRTUAL TABLE summaries_fts USING fts5 (
  text, bigrams,
  content="summaries", content_rowid="id", columnsize=0,
  tokenize="porter unicode61 remove_diacritics 2"
);
INSERT INTO summaries_fts (summaries_fts, rank) VALUES ('secure-delete', 1);
CREATE VIRTUAL TABLE artifacts_fts USING fts5 (
  name, text, bigrams,
  content="artifact_names", content_rowid="id", tokenize="porter unicode61 remove_diacritics 2"
);
INSERT INTO artifacts_fts (artifacts_fts, rank) VALUES ('secure-delete', 1);
-- Rows without a text are in neither of the two.
CREATE VIRTUAL TABLE items_fts USING fts5 (
  text, bigrams,
  content="items", content_rowid="id", columnsize=0,
  tokenize="porter unicode61 remove_diacritics 2"
);
INSERT INTO items_fts (items_fts, rank) VALUES ('secure-delete', 1);
CREATE VIRTUAL TABLE sessions_fts USING fts5 (
  title, bigrams,
  content="sessions", content_rowid="id", columnsize=0,
  tokenize="porter unicode61 remove_diacritics 2"
);
INSERT INTO sessions_fts (sessions_fts, rank) VALUES ('secure-delete', 1);


-- Views for people, who read the file with Datasette, DB Browser or `sqlite3`:
-- names instead of ids, times in ISO 8601 (UTC). memdb itself reads none of them.
CREATE VIEW sessions_view AS
SELECT
  app,
  user_name,
  name AS session,
  nullif(branch, '') AS branch,        -- NULL: the session itself
  leaves_at,                           -- the last seq that a branch shares with its parent
  title,
  message_count AS messages,           -- of a branch: its own ones
  strftime('%Y-%m-%dT%H:%M:%fZ', sessions.created_ms / 1000.0, 'unixepoch') AS created,
  strftime('%Y-%m-%dT%H:%M:%fZ', updated_ms / 1000.0, 'unixepoch') AS updated,
  metadata,
  sessions.uid
FROM sessions
JOIN scopes ON scopes.scope_no = sessions.scope_no;

CREATE VIEW messages_view AS
SELECT
  app,
  user_name,
  sessions.name AS session,
  nullif(sessions.branch, '') AS branch,
  CAST(messages.id & 0xFFFFFF AS INTEGER) AS seq,
  role,
  author,
  text,                                -- NULL: archived
  messages.tokens,
  strftime('%Y-%m-%dT%H:%M:%fZ', messages.created_ms / 1000.0, 'unixepoch') AS created,
  external_id,
  messages.writer,
  messages.metadata,
  CASE length(messages.uid)
    WHEN 16 THEN lower(
      substr(hex(messages.uid), 1, 8) || '-' || substr(hex(messages.uid), 9, 4) || '-'
      || substr(hex(messages.uid), 13, 4) || '-' || substr(hex(messages.uid), 17, 4) || '-'
      || substr(hex(messages.uid), 21)
    )
    ELSE CAST(
      CASE substr(messages.uid, 17)
        WHEN x'00' THEN substr(messages.uid, 1, 16)
        ELSE messages.uid
      END AS TEXT
    )
  END AS uid
FROM messages
JOIN sessions ON sessions.id = messages.id & ~0xFFFFFF
JOIN scopes ON scopes.scope_no = sessions.scope_no;

CREATE VIEW summaries_view AS
SELECT
  app,
  user_name,
  sessions.name AS session,
  nullif(sessions.branch, '') AS branch,
  summaries.depth,
  summaries.first_seq,
  summaries.last_seq,
  summaries.text,                      -- NULL: pruned
  summaries.hint,
  summaries.quality,
  summaries.summarizer,
  summaries.trust,
  summaries.tokens,
  strftime('%Y-%m-%dT%H:%M:%fZ', summaries.created_ms / 1000.0, 'unixepoch') AS created,
  summaries.uid,
  above.uid AS condensed_into
FROM summaries
JOIN sessions ON sessions.id = summaries.session_id
JOIN scopes ON scopes.scope_no = sessions.scope_no
LEFT JOIN summaries AS above ON above.id = summaries.condensed_into;

-- The status is that of now, as `Entry.status` says it.
CREATE VIEW entries_view AS
SELECT
  app,
  user_name,
  entries.category,
  entries.key,
  entries.text,
  CASE
    WHEN
      entries.active = 1
      AND (entries.valid_from_ms IS NULL OR entries.valid_from_ms <= clock.now_ms)
      AND (entries.valid_to_ms IS NULL OR entries.valid_to_ms > clock.now_ms)
      AND (entries.expires_ms IS NULL OR entries.expires_ms > clock.now_ms)
      THEN 'active'
    WHEN entries.superseded_by IS NOT NULL THEN 'superseded'
    WHEN entries.expires_ms <= clock.now_ms OR entries.valid_to_ms <= clock.now_ms
      THEN 'expired'
    WHEN entries.active = 0 THEN 'inactive'
    ELSE 'future'
  END AS status,
  successor.uid AS superseded_by,
  entries.keywords,
  entries.importance,
  entries.pinned,
  entries.trust,
  entries.version,
  sessions.name AS session,
  entries.first_seq,
  entries.last_seq,
  entries.writer,
  strftime('%Y-%m-%dT%H:%M:%fZ', entries.valid_from_ms / 1000.0, 'unixepoch') AS valid_from,
  strftime('%Y-%m-%dT%H:%M:%fZ', entries.valid_to_ms / 1000.0, 'unixepoch') AS valid_to,
  strftime('%Y-%m-%dT%H:%M:%fZ', entries.expires_ms / 1000.0, 'unixepoch') AS expires,
  strftime('%Y-%m-%dT%H:%M:%fZ', entries.created_ms / 1000.0, 'unixepoch') AS created,
  strftime('%Y-%m-%dT%H:%M:%fZ', entries.updated_ms / 1000.0, 'unixepoch') AS updated,
  entries.metadata,
  entries.uid
FROM entries
JOIN (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now_ms) AS clock
JOIN scopes ON scopes.scope_no = entries.scope_no
LEFT JOIN sessions ON sessions.id = entries.session_id
LEFT JOIN entries AS successor ON successor.id = entries.superseded_by;

-- One row per version. The bytes are in blob_chunks, compressed.
CREATE VIEW artifacts_view AS
SELECT
  app,
  user_name,
  sessions.name AS session,            -- NULL: shared by all sessions of the user
  artifacts.name,
  CAST(0x7FFFFFFFFFFFFFFF - artifacts.rev_version AS INTEGER) AS version,
  artifacts.mime,
  artifacts.size_bytes,
  iif(
    artifacts.rev_version = 0x7FFFFFFFFFFFFFFF - artifact_names.last_version,
    artifact_names.text,
    NULL
  ) AS text,                           -- of the newest version; NULL: an older one, or not text
  makers.name AS message_session,
  CAST(artifacts.message_id & 0xFFFFFF AS INTEGER) AS message_seq,
  lower(hex(sha256)) AS sha256,
  strftime('%Y-%m-%dT%H:%M:%fZ', artifacts.created_ms / 1000.0, 'unixepoch') AS created,
  artifacts.metadata,
  artifacts.writer,
  artifacts.uid
FROM artifacts
JOIN scopes ON scopes.scope_no = artifacts.scope_no
JOIN blobs ON blobs.blob_no = artifacts.blob_no
JOIN artifact_names
  ON artifact_names.scope_no = artifacts.scope_no
  AND artifact_names.session_no = artifacts.session_no
  AND artifact_names.name = artifacts.name
LEFT JOIN sessions
  ON sessions.id = (artifacts.scope_no << 44) | (artifacts.session_no << 24)
LEFT JOIN sessions AS makers ON makers.id = artifacts.message_id & ~0xFFFFFF;

-- One row per item; the labels of its namespace are joined by slashes.
CREATE VIEW items_view AS
SELECT
  app,
  user_name,
  rtrim(replace(path, char(31), '/'), '/') AS namespace,
  items.key,
  items.value,                         -- JSON; NULL: bytes
  CAST(length(items.data) AS INTEGER) AS size_bytes,  -- NULL: JSON
  items.version,
  strftime('%Y-%m-%dT%H:%M:%fZ', items.created_ms / 1000.0, 'unixepoch') AS created,
  strftime('%Y-%m-%dT%H:%M:%fZ', items.updated_ms / 1000.0, 'unixepoch') AS updated,
  strftime('%Y-%m-%dT%H:%M:%fZ', items.expires_ms / 1000.0, 'unixepoch') AS expires,
  items.metadata,
  items.writer,
  items.uid
FROM items
JOIN item_namespaces ON item_namespaces.id = items.namespace_id
JOIN scopes ON scopes.scope_no = item_namespaces.scope_no;


PRAGMA application_id = 0x6D656D64;  -- 'memd'
PRAGMA user_version = 1;

// What the JSON API answers: made from its OpenAPI document by tests/web/test_page_types.py.
declare namespace Api {
  interface Archived {
    messages: number;
    segments: number;
    bytes_before: number;
    bytes_after: number;
  }
  interface ArtifactVersion {
    name: string;
    version: number;
    session: string | null;
    size_bytes: number;
    mime: string;
    metadata: Record<string, unknown> | null;
    message_session: string | null;
    message_seq: number | null;
    sha256: string;
    created_ms: number;
    uid: string;
    message_branch: string | null;
    writer: string | null;
  }
  interface BranchInfo {
    name: string;
    parent: string | null;
    leaves_at: number;
    last_seq: number;
    message_count: number;
    metadata: Record<string, unknown> | null;
    created_ms: number;
    updated_ms: number;
    uid: string;
  }
  interface CallStats {
    name: string;
    count: number;
    failed: number;
    p50_ms: number | null;
    p99_ms: number | null;
    error: string | null;
    error_ms: number | null;
  }
  interface Candidate {
    category: string;
    text: string;
    key: string | null;
    keywords: Array<string>;
    importance: number | null;
    valid_from_ms: number | null;
    expires_ms: number | null;
    first_seq: number | null;
    last_seq: number | null;
  }
  interface Category {
    name: string;
    description: string;
    half_life_days: number | null;
    ttl_days: number | null;
    pinned: boolean;
    shared: boolean;
    quota_percent: number;
    merge: "meaning" | "words" | "never";
  }
  interface CategoryCount {
    category: string;
    active: number;
    superseded: number;
    expired: number;
    inactive: number;
    future: number;
  }
  interface Changes {
    mark: string;
    sessions: Array<SessionPlace>;
    kinds: Array<string>;
    is_complete: boolean;
  }
  interface Compacted {
    summarized: number;
    pruned: number;
    archived: number;
    remaining: number;
  }
  interface ContextWindow {
    messages: Array<Message>;
    tokens: number;
    budget_tokens: number | null;
    pieces: Array<Piece>;
  }
  interface DayCount {
    start_ms: number;
    messages: number;
    sessions: number;
    entries: number;
  }
  interface Entry {
    id: number;
    category: string;
    text: string;
    key: string | null;
    keywords: Array<string>;
    importance: number;
    pinned: boolean;
    trust: "trusted" | "untrusted" | "flagged";
    version: number;
    active: boolean;
    superseded_by: number | null;
    session: string | null;
    first_seq: number | null;
    last_seq: number | null;
    session_only: boolean;
    writer: string | null;
    use_count: number;
    last_used_ms: number | null;
    valid_from_ms: number | null;
    valid_to_ms: number | null;
    expires_ms: number | null;
    metadata: Record<string, unknown> | null;
    created_ms: number;
    updated_ms: number;
    stored_ms: number;
    uid: string;
    branch: string | null;
    outdated_by: number | null;
  }
  interface EntryVersion {
    version: number;
    category: string;
    key: string | null;
    text: string;
    keywords: Array<string>;
    importance: number;
    pinned: boolean;
    trust: "trusted" | "untrusted" | "flagged";
    active: boolean;
    session: string | null;
    first_seq: number | null;
    last_seq: number | null;
    session_only: boolean;
    writer: string | null;
    valid_from_ms: number | null;
    valid_to_ms: number | null;
    expires_ms: number | null;
    metadata: Record<string, unknown> | null;
    updated_ms: number;
    stored_ms: number;
    reason: string;
    replaced_ms: number;
    branch: string | null;
  }
  interface Expansion {
    summary: Summary | null;
    summaries: Array<Summary>;
    messages: Array<Message>;
    next_seq: number | null;
  }
  interface Extracted {
    messages: number;
    batches: number;
    outcomes: Array<Outcome>;
    calls: number;
    next_seq: number;
  }
  interface Failure {
    error: string;
    failed_ms: number;
  }
  interface FileInfo {
    path: string;
    format: number;
    size_bytes: number;
    wal_bytes: number;
    counts: Record<string, number>;
    bytes_per_store: Record<string, number>;
    spaces: Array<SpaceInfo>;
    oldest_ms: number | null;
    newest_ms: number | null;
    pending_jobs: number;
    pending: Record<string, number>;
    summaries: Record<string, number>;
    archived_messages: number;
    meta: Record<string, string>;
    upkeep: Array<Upkeep>;
    other_tables: Array<string>;
    wal_readers: Array<number>;
    migration_copies: Array<string>;
    is_encrypted: boolean;
    scopes_left: number;
  }
  interface Finding {
    code: string;
    text: string;
    rebuildable: boolean;
  }
  interface Hit {
    kind: "message" | "entry" | "artifact" | "summary" | "item" | "session";
    text: string;
    score: number | null;
    rank: number;
    source: Source;
    explanation: Record<string, number | null> | null;
    hits: Array<Hit>;
    trust: "trusted" | "untrusted" | "flagged";
    role: "system" | "user" | "assistant" | "tool" | null;
    writer: string | null;
    is_sure: boolean;
    also: Array<Source>;
    outdated_by: number | null;
    why: string;
  }
  interface Hits {
    hits: Array<Hit>;
    arms: Array<string>;
    missing: Record<string, string>;
    failure: string | null;
    space: string | null;
    certainty: "sure" | "unsure" | "none";
  }
  interface Hunk {
    old_start: number;
    old_count: number;
    new_start: number;
    new_count: number;
    lines: Array<string>;
  }
  interface ImportReport {
    format: string;
    sessions: number;
    branches: number;
    messages_added: number;
    messages_known: number;
    summaries_added: number;
    entries_added: number;
    entries_known: number;
    artifacts_added: number;
    artifacts_known: number;
    items_added: number;
    items_known: number;
    embeddings_added: number;
    state_added: number;
    settings_added: number;
    forgotten: number;
    left_out: Array<LeftOut>;
    dry_run: boolean;
    samples: Array<string>;
    notes: Array<string>;
  }
  interface Item {
    id: number;
    namespace: Array<string>;
    key: string;
    value: unknown;
    version: number;
    metadata: Record<string, unknown> | null;
    created_ms: number;
    updated_ms: number;
    ttl_ms: number | null;
    expires_ms: number | null;
    uid: string;
    writer: string | null;
  }
  interface LeftOut {
    what: string;
    why: string;
    count: number;
    is_place: boolean;
  }
  interface Link {
    newer_id: number;
    older_id: number;
    kind: "repeats" | "updates" | "corrects" | "retracts";
    probability: number | null;
    reason: string;
    model: string;
    made_ms: number;
    decided: unknown;
  }
  interface Message {
    seq: number;
    role: "system" | "user" | "assistant" | "tool";
    author: string | null;
    text: string;
    parts: Array<unknown> | null;
    tokens: number;
    counter: string;
    external_id: string | null;
    created_ms: number;
    metadata: Record<string, unknown> | null;
    session: string;
    uid: string;
    writer: string | null;
  }
  interface MessageView {
    seq: number;
    role: string;
    author: string | null;
    text: string;
    text_chars: number;
    parts: Array<unknown> | null;
    tokens: number;
    external_id: string | null;
    created_ms: number;
    metadata: Record<string, unknown> | null;
    session: string;
    uid: string;
    writer: string | null;
  }
  interface Outcome {
    candidate: Candidate;
    action: string;
    reason: string;
    entry: Entry | null;
    conflict: string | null;
    target: number | null;
  }
  interface Piece {
    kind: string;
    first_seq: number | null;
    last_seq: number | null;
    tokens: number;
    reason: string;
    ref: string | null;
    score: number | null | null;
    text: string;
    message: number;
    session: string | null;
    branch: string | null;
    pinned: string | null;
    trust: string;
    role: string | null;
    writer: string | null;
  }
  interface PreviewRow {
    kind: string;
    text: string;
    new_text: string | null;
    session: string | null;
    branch: string | null;
    seq: number | null;
    last_seq: number | null;
    entry_id: number | null;
    version: number | null;
    created_ms: number | null;
  }
  interface Problem {
    type: string;
    status: number;
    code: string;
    detail: string;
    todo: string;
    field?: string | null;
  }
  interface ProfileBlock {
    text: string;
    tokens: number;
    entry_ids: Array<number>;
  }
  interface Proof {
    pieces: number;
    short: number;
    searched: Array<string>;
    found_bytes: number;
    found_in: Array<string>;
    said_elsewhere: number;
    said_in: Array<string>;
    still_said_in: Array<string>;
    notices: Array<string>;
  }
  interface QueueState {
    kind: string;
    model: string | null;
    waiting: number;
    due: number;
    oldest_due_ms: number | null;
    failing: number;
    error: string | null;
    attempts: number;
    retry_ms: number | null;
  }
  interface Receipt {
    what: string;
    subject_sha256: string;
    removed: Record<string, number>;
    rewritten: Record<string, number>;
    forgotten_ms: number;
    dry_run: boolean;
    proof: Proof | null;
    pending: Array<string>;
    rows: Array<PreviewRow>;
    more_rows: number;
    digest: string | null;
    remaining: Array<string>;
  }
  interface RefusedText {
    kind: string;
    model: string;
    session: string | null;
    seq: number | null;
    entry_id: number | null;
    attempts: number;
    error: string;
    retry_ms: number;
  }
  interface Remembered {
    action: "added" | "repeated" | "updated" | "retracted" | "refused";
    entry: Entry;
    other: Entry | null;
    reason: string;
    links: Array<Link>;
  }
  interface Rows {
    columns: Array<string>;
    rows: unknown;
    has_more: boolean;
  }
  interface ScopeCounts {
    days: Array<DayCount>;
    bucket_days: number;
    categories: Array<CategoryCount>;
    is_complete: boolean;
  }
  interface SessionHead {
    name: string;
    title: string | null;
    last_seq: number;
    newest_seq: number;
    metadata: Record<string, unknown> | null;
    created_ms: number;
    updated_ms: number;
    uid: string;
  }
  interface SessionInfo {
    name: string;
    title: string | null;
    last_seq: number;
    message_count: number;
    metadata: Record<string, unknown> | null;
    created_ms: number;
    updated_ms: number;
    uid: string;
    tokens: number;
    archived_count: number;
    opening: string | null;
  }
  interface SessionPlace {
    app: string;
    user: string;
    session: string;
    branch: string | null;
  }
  interface Settings {
    categories: Array<Category>;
    entry_quota: number;
    entry_decay_percent: number;
    secrets_in_entries: "refuse" | "redact" | "allow";
    secrets_in_extraction: "refuse" | "redact" | "allow";
    secrets_in_messages: "refuse" | "redact" | "allow";
    secrets_by_entropy: boolean;
    summary_messages: number;
    summary_condense_at: number;
    summary_group: number;
    summary_max_depth: number;
    summary_prompt: string | null;
    extract: boolean | null;
    extract_by_model: boolean;
    extract_categories: Array<string> | null;
    extract_messages: number;
    extract_chars: number;
    extract_context: number;
    extract_max_facts: number;
    extract_every: number;
    extract_idle_ms: number;
    extract_prompt: string | null;
    compare_prompt: string | null;
    entry_inactive_ms: number | null;
    session_max_age_ms: number | null;
    session_max_idle_ms: number | null;
    session_max_count: number | null;
    session_retention: "archive" | "delete" | "forget";
    session_archive_at: number | null;
    session_archive_keep: number;
    context_messages: number | null;
    context_images: number;
    context_media_bytes: number;
    image_tokens: number | null;
    page_tokens: number;
    sound_tokens: number;
    context_tail_percent: number;
    context_recall_percent: number;
    context_known_tokens: number;
    context_entries: number;
    context_categories: Array<string> | null;
    context_flagged: boolean;
    context_log_days: number;
    window_tokens: number;
    counter: string | null;
  }
  interface Source {
    session: string | null;
    seq: number | null;
    external_id: string | null;
    author: string | null;
    created_ms: number | null;
    entry_id: number | null;
    category: string | null;
    artifact: string | null;
    version: number | null;
    title: string | null;
    shared: boolean;
    summary_id: number | null;
    last_seq: number | null;
    metadata: Record<string, unknown> | null;
    namespace: Array<string> | null;
    key: string | null;
    branch: string | null;
  }
  interface SpaceInfo {
    model: string;
    dim: number;
    vectors: number;
    state: string;
    due: number;
  }
  interface StateValue {
    value: unknown;
    version: number;
    updated_ms: number;
  }
  interface Stats {
    queue: Array<QueueState>;
    refused: Array<RefusedText>;
    failures: Record<string, Failure>;
    calls: Array<CallStats>;
  }
  interface Summary {
    id: number;
    session: string;
    depth: number;
    first_seq: number;
    last_seq: number;
    text: string;
    hint: string | null;
    quality: string;
    summarizer: string;
    tokens: number;
    counter: string;
    condensed_into: number | null;
    created_ms: number;
    uid: string;
    branch: string | null;
    trust: string;
  }
  interface SummaryTree {
    summaries: Array<Summary>;
    head_seq: number;
    first_raw_seq: number;
    last_seq: number;
  }
  interface TextDiff {
    old: number;
    new: number;
    hunks: Array<Hunk>;
    added: number;
    removed: number;
    is_exact: boolean;
  }
  interface Upkeep {
    kind: string;
    done_ms: number | null;
    due_ms: number;
    lease_ms: number;
    attempts: number;
    error: string | null;
  }
  interface Why {
    rank: number | null;
    score: number | null;
    reason: string;
    explanation: Record<string, number | null> | null;
    last: Record<string, number | null> | null;
  }
  interface Get {
    "file": FileInfo;
    "check": { items: Array<Finding>; next: string | null; complete: boolean };
    "stats": Stats;
    "scopes": { items: Array<Record<string, string>>; next: string | null; complete: boolean };
    "changes": Changes;
    "settings": Settings;
    "prompts": Record<string, string>;
    "categories": { items: Array<Category>; next: string | null; complete: boolean };
    "jobs": { value: number };
    "sessions": { items: Array<SessionInfo>; next: string | null; complete: boolean };
    "session": SessionHead;
    "messages": { items: Array<Message | MessageView>; next: string | null; complete: boolean };
    "message": Message;
    "context": ContextWindow;
    "context/given": { items: Array<Piece>; next: string | null; complete: boolean };
    "context/sent": Record<string, unknown>;
    "branches": { items: Array<BranchInfo>; next: string | null; complete: boolean };
    "tree": SummaryTree;
    "summaries": { items: Array<Summary>; next: string | null; complete: boolean };
    "expand": Expansion;
    "recall": Hits;
    "why": Why;
    "counts": ScopeCounts;
    "profile": ProfileBlock;
    "entries": { items: Array<Entry>; next: string | null; complete: boolean };
    "entry": Entry;
    "entry/find": Entry;
    "entry/history": { items: Array<EntryVersion>; next: string | null; complete: boolean };
    "entry/replaced": { items: Array<Entry>; next: string | null; complete: boolean };
    "entry/links": { items: Array<Link>; next: string | null; complete: boolean };
    "artifacts": { items: Array<ArtifactVersion>; next: string | null; complete: boolean };
    "artifact": ArtifactVersion;
    "artifact/versions": { items: Array<ArtifactVersion>; next: string | null; complete: boolean };
    "artifact/diff": TextDiff;
    "items": { items: Array<Item>; next: string | null; complete: boolean };
    "item": Item;
    "namespaces": { items: Array<Array<string>>; next: string | null; complete: boolean };
    "state": Record<string, unknown>;
    "state/value": StateValue;
  }
  interface Post {
    "rebuild": { value: null };
    "vacuum": { value: number };
    "query": Rows;
    "upload": { value: number };
    "import": ImportReport;
    "jobs": { value: number };
    "sessions": SessionHead;
    "messages": { items: Array<Message>; next: string | null; complete: boolean };
    "message": Message;
    "branches": BranchInfo;
    "fork": SessionHead;
    "extract": Extracted;
    "archive": Archived;
    "unarchive": Archived;
    "compact": Compacted;
    "delete": Receipt;
    "forget/preview": Receipt;
    "undo": Receipt;
    "forget": Receipt;
    "session/forget": Receipt;
    "entries": Remembered;
    "entry/revert": Entry;
    "entry/supersede": Entry;
    "entry/unlink": { value: boolean };
    "artifact/rename": ArtifactVersion;
  }
  interface Put {
    "artifact": ArtifactVersion;
    "item": Item;
    "state/value": StateValue;
  }
  interface Patch {
    "settings": Settings;
    "session": SessionHead;
    "message": Message;
    "summary": Summary;
    "entry": Entry;
  }
  interface Delete {
    "summary": { value: number };
    "entry": { value: boolean };
    "artifact": { value: boolean };
    "item": { value: boolean };
    "state/value": { value: boolean };
  }
}

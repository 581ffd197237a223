-- What people keep: saved views, dashboards, preferences, links.

-- A document is its newest version. What lists and the search show of it stands here, so that they read no body.
CREATE TABLE documents (
    id         uuid PRIMARY KEY,
    org_id     uuid NOT NULL REFERENCES organizations ON DELETE CASCADE,
    kind       text NOT NULL CHECK (kind IN ('view', 'dashboard', 'preferences')),
    owner_id   uuid REFERENCES users ON DELETE SET NULL,
    name       text NOT NULL,
    shared     boolean NOT NULL,
    version    bigint NOT NULL CHECK (version > 0),
    summary    json NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    updated_by text NOT NULL, -- an actor, as in the audit log
    deleted_at timestamptz
);
CREATE INDEX documents_org ON documents (org_id, kind);
CREATE INDEX documents_deleted ON documents (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE UNIQUE INDEX documents_preferences ON documents (org_id, owner_id) WHERE kind = 'preferences';

-- body and summary are json, not jsonb: they are read and written whole, and what was imported is given back as it was, NUL characters and the order of keys included.
CREATE TABLE document_versions (
    document_id uuid NOT NULL REFERENCES documents ON DELETE CASCADE,
    version     bigint NOT NULL,
    name        text NOT NULL,
    summary     json NOT NULL,
    body        json NOT NULL CHECK (octet_length(body::text) <= 1048576),
    made_at     timestamptz NOT NULL,
    made_by     text NOT NULL,
    PRIMARY KEY (document_id, version)
);

-- State of a page that is too long for an address. The same state of the same person is one link.
CREATE TABLE links (
    id       text PRIMARY KEY, -- random: who has it may read it within the organization
    org_id   uuid NOT NULL REFERENCES organizations ON DELETE CASCADE,
    owner_id uuid REFERENCES users ON DELETE SET NULL,
    hash     bytea NOT NULL CHECK (octet_length(hash) = 32), -- of the state
    state    json NOT NULL CHECK (octet_length(state::text) <= 65536),
    used_at  timestamptz NOT NULL,
    UNIQUE (org_id, owner_id, hash)
);
CREATE INDEX links_age ON links (used_at);
